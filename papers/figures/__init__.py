"""The papers' experiments, each figure by name: `python -m pastforward.papers.figures`, or `pastforward bench papers`."""
