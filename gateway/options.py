"""What a gateway is told when it starts: who may come in, from where, and how much each may ask for."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pastforward.errors import UserError

PORT: Final = 8765
RECORD: Final = 1 << 20  # bytes: Kafka takes no larger record
BULK: Final = 64 << 20  # bytes of newline-delimited JSON in one request


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """For each identity; 0: no limit."""

    subscriptions: int = 10_000
    requests_a_second: float = 0.0
    streams: int = 0  # connections that listen
    body: int = RECORD
    bulk: int = BULK
    pending: int = 512 << 10  # bytes that wait for one listening connection, until it counts as too slow
    named_readers: int = 100  # of the whole process: each has a Kafka consumer of its own

    @staticmethod
    def of_strangers() -> Limits:
        """Of identities that a token proves, who share the gateway with others."""
        return Limits(requests_a_second=50.0, streams=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """`hosts`: names that a browser may call an open gateway by. `origins`: pages elsewhere that may use the API."""

    bind: str = "127.0.0.1"
    port: int = PORT
    insecure: bool = False
    jwks: str | None = None  # file or URL
    hs256_secret: bytes | None = None
    audience: str | None = None
    issuer: str | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    limits: Limits | None = None
    console: bool = True
    data_dir: Path | None = field(default=None)

    @property
    def authenticates(self) -> bool:
        return self.jwks is not None or self.hs256_secret is not None

    @property
    def is_local(self) -> bool:
        return is_loopback(self.bind)

    @property
    def effective_limits(self) -> Limits:
        return self.limits or (Limits.of_strangers() if self.authenticates else Limits())

    def check(self) -> None:
        """An open gateway that others can reach would give everything to everybody."""
        if not self.authenticates and not self.is_local and not self.insecure:
            raise UserError(
                f"{self.bind} can be reached from elsewhere, and nobody would be asked who they are: give --jwks FILE or URL, "
                "bind 127.0.0.1, or give --insecure if whoever reaches it may do everything"
            )
        if self.hs256_secret is not None and len(self.hs256_secret) < 32:
            raise UserError("the secret for HS256 has fewer than 32 bytes: write a longer one")


def is_loopback(address: str) -> bool:
    if address in ("localhost", "testserver"):
        return address == "localhost"
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
