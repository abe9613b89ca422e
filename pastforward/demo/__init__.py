"""The scene of `pastforward demo`: drivers move, incidents appear, and drivers nearby are notified, of the past and live."""

from pastforward.demo.play import play

__all__ = ["play"]
