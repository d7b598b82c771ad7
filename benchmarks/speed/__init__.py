"""How fast, and in how much memory: `python -m benchmarks.speed.NAME`. Each writes a JSON file to benchmarks/results."""
