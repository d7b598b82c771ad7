"""`python -m fedonce.cli`."""

from fedonce.cli.entry import main

main()
