"""What must not be shown: settings that are secrets, and credentials inside a URL."""

from __future__ import annotations

import re
from typing import Final

# Of librdkafka's properties: passwords, client secrets, tokens, and keys that are given as text or inside an opaque setting.
_SECRET: Final = re.compile(r"password|passphrase|secret|key\.pem|jaas|oauthbearer\.config")
_CREDENTIALS: Final = re.compile(r"(://)[^/\s]*@")
HIDDEN: Final = "…"


def is_secret(name: str) -> bool:
    """Of a property, by its name."""
    return _SECRET.search(name.lower()) is not None


def without_credentials(text: str) -> str:
    """`http://anna:hush@host/` becomes `http://…@host/`."""
    return _CREDENTIALS.sub(rf"\1{HIDDEN}@", text)
