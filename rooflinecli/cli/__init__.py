"""The commands: options in, one library call, one report call each."""
