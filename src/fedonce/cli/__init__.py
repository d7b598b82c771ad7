"""The command line: a group of commands per module, each of which parses, calls the library and prints."""

from fedonce.cli.entry import app, exit_code, main

__all__ = ["app", "exit_code", "main"]
