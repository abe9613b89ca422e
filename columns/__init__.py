"""The lowest layer: what `matching` and `state` both need. Imports nothing of ours."""
