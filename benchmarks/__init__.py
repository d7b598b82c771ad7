"""Measurements behind the project's figures. Each module is a command: `python -m benchmarks.NAME`."""
