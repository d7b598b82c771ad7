"""The report: results as tables and pictures. `python -m benchmarks.report` writes docs/results.md."""
