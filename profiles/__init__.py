"""One YAML file a GPU; see docs/profiles.md."""
