"""`python -m rooflinecli`."""

from rooflinecli.cli.app import main

main()
