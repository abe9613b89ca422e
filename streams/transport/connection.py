"""How the workers reach Kafka: librdkafka's properties, as aiokafka and Faust understand them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Final

import faust

from pastforward.errors import UserError
from pastforward.settings import Settings

PLAIN: Final = "PLAINTEXT"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class Connection:
    """One cluster, as every client of a worker is told of it."""

    bootstrap: str
    protocol: str
    context: ssl.SSLContext | None
    mechanism: str | None
    username: str | None
    password: str | None

    @classmethod
    def of(cls, settings: Settings, bootstrap: str) -> Connection:
        """Properties that only librdkafka knows (buffers, time-outs) concern the client, not the worker."""
        get = settings.kafka.get
        protocol = get("security.protocol", PLAIN).upper()
        mechanism = get("sasl.mechanism") or get("sasl.mechanisms")
        if protocol.startswith("SASL") and mechanism not in MECHANISMS:
            raise UserError(f"sasl.mechanism is {mechanism!r}; workers know {', '.join(MECHANISMS)}")
        return cls(
            bootstrap=bootstrap,
            protocol=protocol,
            context=_context(settings) if protocol.endswith("SSL") else None,
            mechanism=mechanism if protocol.startswith("SASL") else None,
            username=get("sasl.username"),
            password=get("sasl.password"),
        )

    def arguments(self) -> dict[str, Any]:
        """For aiokafka's producers and consumers."""
        common: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.context:
            common["ssl_context"] = self.context
        if self.mechanism:
            common |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return common

    def credentials(self) -> Any:
        """For Faust's consumer."""
        if self.mechanism:
            return faust.SASLCredentials(
                username=self.username, password=self.password, mechanism=self.mechanism, ssl_context=self.context
            )
        return faust.SSLCredentials(context=self.context) if self.context else None


def _context(settings: Settings) -> ssl.SSLContext:
    get = settings.kafka.get
    try:
        context = ssl.create_default_context(cafile=get("ssl.ca.location"))
        if get("ssl.certificate.location"):
            context.load_cert_chain(
                get("ssl.certificate.location", ""), get("ssl.key.location"), get("ssl.key.password")
            )
    except OSError as error:
        raise UserError(f"a TLS file cannot be used: {error}; check PASTFORWARD_KAFKA_SSL_…") from error
    context.check_hostname = get("ssl.endpoint.identification.algorithm", "https") != "none"
    return context
