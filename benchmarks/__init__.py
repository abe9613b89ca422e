"""Measures: every figure that the documents state is made here."""
