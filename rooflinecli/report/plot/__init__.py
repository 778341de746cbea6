"""The roofline, drawn: what to draw (`chart`, `build`, `read`), where (`scene`), and one module a medium."""
