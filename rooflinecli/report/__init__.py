"""One module a format: results in, text or a file out."""
