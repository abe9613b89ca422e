"""Who somebody is, and what they may see and do.

An open gateway takes everybody for one who may do everything. With authentication a JSON Web Token says who somebody is: `sub` is the
subscriber and publisher id, and what the ids they send begin with, followed by a slash; `pastforward_read` and `pastforward_write` list the
topics that they may subscribe to and publish to, each with all below it (an empty text: all).
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

import jwt
from jwt import PyJWKClient, PyJWKSet
from starlette.requests import HTTPConnection

from pastforward.client import Notification, Standing
from pastforward.columns.dewey import topics_of
from pastforward.errors import UserError
from pastforward.gateway.options import GatewayOptions
from pastforward.gateway.problems import Problem
from pastforward.names import is_name
from pastforward.schemas import SchemaError
from pastforward.schemas.dewey_text import check_path

COOKIE: Final = "pastforward_token"
READ: Final = "pastforward_read"
WRITE: Final = "pastforward_write"
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")  # of keys; a secret has HS256 alone
FRESH: Final = 300.0  # seconds until a file of keys is looked at again
LONGEST: Final = 255  # bytes of a name: an id has twice as many
LEEWAY: Final = 10  # seconds that clocks may differ by


def is_below(topic: str, prefix: str) -> bool:
    """The same topic, or below it."""
    if not prefix:
        return True
    # a name is not compared: what it becomes lies elsewhere
    return topic == prefix or (topic.startswith(prefix + ".") and not is_name(topic))


@dataclass(frozen=True, slots=True)
class Identity:
    """`name` None: an open gateway's, who may do everything."""

    name: str | None
    reads: tuple[str, ...] = ("",)
    writes: tuple[str, ...] = ("",)

    @property
    def is_open(self) -> bool:
        return self.name is None

    def own(self, name: str | None, what: str) -> str:
        """Whose it is: one's own, or on an open gateway whoever is named."""
        if self.name is None:
            if not name:
                raise Problem(422, "refused", f"{what} is missing: who is it?", kind="missing")
            return name
        if name not in (None, "", self.name):
            raise Problem(403, "forbidden", f"{what} is {name!r}, and you are {self.name!r}: leave it out")
        return self.name

    def check_id(self, name: str, what: str) -> str:
        """An id that is sent: nobody can take another's."""
        if not self.owns_id(name):
            raise Problem(403, "forbidden", f"{what} {name!r} does not begin with {self.name + '/'!r}, as yours do")  # type: ignore[operator]
        return name

    def owns_id(self, name: str | None) -> bool:
        return self.name is None or (name is not None and name.startswith(self.name + "/"))

    def new_id(self, made: str) -> str:
        return made if self.name is None else f"{self.name}/{made}"

    def check_read(self, topic: str) -> None:
        """Of one topic, or of several with commas between them: each of them."""
        for one in topics_of(topic):
            if not any(is_below(one, each) for each in self.reads):
                raise Problem(403, "forbidden", self._said("read", one, self.reads))

    def check_write(self, topic: str) -> None:
        if not any(is_below(topic, each) for each in self.writes):
            raise Problem(403, "forbidden", self._said("write", topic, self.writes))

    @staticmethod
    def _said(how: str, topic: str, allowed: tuple[str, ...]) -> str:
        those = ", ".join(each or "the root" for each in allowed) or "none"
        return f"you may not {how} topic {topic or 'the root'}; your token has: {those}"

    def sees_publication(self, topic: str, publication_id: str | None) -> bool:
        """What lies at or below a topic that one may read, what lies above it and so concerns it, and one's own."""
        return self.owns_id(publication_id) or any(is_below(topic, e) or is_below(e, topic) for e in self.reads)

    def sees(self, found: Standing) -> bool:
        return self.name is None or found.subscriber_id == self.name

    def hears(self, notification: Notification) -> bool:
        return self.name is None or notification.recipient_id == self.name


OPEN: Final = Identity(None)


class Keys:
    """Where the keys of the tokens come from. May be shared by threads."""

    def __init__(self, jwks: str) -> None:
        self._where = jwks
        self._client = PyJWKClient(jwks, lifespan=FRESH, timeout=5) if "://" in jwks else None
        self._lock = Lock()
        self._set: PyJWKSet | None = None
        self._read_at = 0.0
        if self._client is None:
            self._of_file(None)

    def of(self, token: str) -> Any:
        if self._client is not None:
            return self._client.get_signing_key_from_jwt(token).key
        return self._of_file(jwt.get_unverified_header(token).get("kid"), token)

    def _of_file(self, kid: str | None, token: str | None = None) -> Any:
        with self._lock:
            if self._set is None or time.monotonic() - self._read_at > FRESH:
                self._set = _read_keys(Path(self._where))
                self._read_at = time.monotonic()
            keys = self._set.keys
        if token is None:
            return None
        for key in keys:
            if kid is None or key.key_id == kid:
                return key.key
        raise jwt.InvalidTokenError(f"no key is called {kid!r}")


def _read_keys(path: Path) -> PyJWKSet:
    try:
        return PyJWKSet.from_dict(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise UserError(f"cannot read the keys in {path}: {error.strerror}") from error
    except (ValueError, jwt.PyJWTError, AttributeError) as error:
        raise UserError(f"{path} has no JSON Web Key Set: {error}") from error


class Authenticator:
    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._keys = None if options.jwks is None else Keys(options.jwks)

    @property
    def asks(self) -> bool:
        return self._options.authenticates

    def identify(self, connection: HTTPConnection) -> Identity:
        """Raises a problem for whoever does not say who they are. May wait for the keys: not to be called in the event loop."""
        if not self.asks:
            return OPEN
        token = token_of(connection)
        if token is None:
            raise _nobody("send your token: `Authorization: Bearer …`")
        return self.of_token(token)

    def of_token(self, token: str) -> Identity:
        try:
            claims = self._decode(token)
        except jwt.PyJWTError as error:
            raise _nobody(f"your token is not valid: {error}") from error
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject:
            raise _nobody("your token's `sub` is no text: it says who you are")
        if "/" in subject or subject.startswith("~") or len(subject.encode()) > LONGEST:
            # `a` would own what `a/b` sends
            raise _nobody(f"your token's `sub` has a slash, begins with ~, or has more than {LONGEST} bytes")
        return Identity(subject, _topics(claims, READ), _topics(claims, WRITE))

    def _decode(self, token: str) -> dict[str, Any]:
        options: Any = {"require": ["sub", "exp"], "verify_aud": self._options.audience is not None}
        secret = self._options.hs256_secret
        is_shared = jwt.get_unverified_header(token).get("alg") == "HS256"
        if is_shared and secret is None:
            raise jwt.InvalidTokenError("HS256 is not taken here")
        if not is_shared and self._keys is None:
            raise jwt.InvalidTokenError("only HS256 is taken here")
        key: Any = secret if is_shared else self._keys.of(token)  # type: ignore[union-attr]
        found: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=["HS256"] if is_shared else list(ALGORITHMS),
            audience=self._options.audience,
            issuer=self._options.issuer,
            leeway=LEEWAY,
            options=options,
        )
        return found


def token_of(connection: HTTPConnection) -> str | None:
    """Of the header, or of the console's cookie: an `EventSource` can send no header."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return connection.cookies.get(COOKIE)


def _topics(claims: dict[str, Any], name: str) -> tuple[str, ...]:
    given = claims.get(name, [])
    given = [given] if isinstance(given, str) else given
    if not isinstance(given, list):
        raise _nobody(f"your token's `{name}` is no list of topics")
    try:
        return tuple(check_path(each) for each in given)
    except SchemaError as error:
        raise _nobody(f"your token's `{name}`: {error.reason}") from error


def _nobody(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail, {"WWW-Authenticate": 'Bearer realm="pastforward"'})
