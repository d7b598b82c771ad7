"""`python -m fedonce`, where the command `fedonce` is not on the path."""

from fedonce.cli import main

main()
