"""The scene of `pastforward demo`: drivers move, incidents appear, and whoever is near is told, of the past and live."""

from pastforward.demo.play import play

__all__ = ["play"]
