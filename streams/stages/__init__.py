"""What router and matcher have in common: what a stage is, what it puts out, and whom an exception is blamed on."""
