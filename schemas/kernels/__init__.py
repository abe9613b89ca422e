"""Numba kernels that read and write whole chunks of records, without the interpreter's lock."""
