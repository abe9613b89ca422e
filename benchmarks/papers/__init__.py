"""The papers' experiments, each figure by name: `python -m benchmarks.papers`, or `pastforward bench papers`."""
