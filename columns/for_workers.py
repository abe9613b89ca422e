"""Imported first by packages that the client alone does not have the libraries for."""

from __future__ import annotations

from pastforward.columns import extras

extras.need("worker", "this part of pastforward")
