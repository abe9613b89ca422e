"""Fabret et al., Filtering algorithms and implementation for very fast publish/subscribe systems.

Counting, propagation, propagation with prefetch, static and dynamic clustering.
"""
