"""What a person says of a new connection, and whether it can be used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from graphrag.connections.errors import ConnectionRefused
from graphrag.connections.stored_connection import DEFAULT_INTERVAL_S, EditorKind, PushMode
from tools.http.addresses import origin_of

MAX_PATTERNS = 50
MIN_INTERVAL_S = 15
MAX_INTERVAL_S = 86_400
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConnection:
    """What a person says of a new connection. The key is in `key_variable` or `key`, or there is
    none.
    """

    name: str
    kind: EditorKind
    address: str
    key_variable: str | None = None
    key: str | None = None
    workflows: tuple[str, ...] = ()
    allow_private: bool = False
    certificate_file: str | None = None
    interval_s: int = DEFAULT_INTERVAL_S
    push: PushMode = "never"


def check_new(new: NewConnection) -> None:
    """Raises: ConnectionRefused for a name, an address or a variable that cannot be used."""
    if not _NAME.match(new.name):
        raise ConnectionRefused("connection_name", name=new.name)
    try:
        origin_of(new.address)
    except ValueError:
        raise ConnectionRefused("connection_address", address=new.address) from None
    if new.key_variable is not None and not _VARIABLE.match(new.key_variable):
        raise ConnectionRefused("connection_variable", variable=new.key_variable)
    if new.interval_s and not MIN_INTERVAL_S <= new.interval_s <= MAX_INTERVAL_S:
        raise ConnectionRefused(
            "connection_interval", least=str(MIN_INTERVAL_S), most=str(MAX_INTERVAL_S)
        )
    if len(new.workflows) > MAX_PATTERNS:
        raise ConnectionRefused("connection_patterns", limit=str(MAX_PATTERNS))


def normal_address(address: str) -> str:
    """Returns an address without what people paste with it: a page of the editor, a query."""
    parts = urlsplit(address.strip())
    path = re.sub(r"/(?:home|workflows?|projects|signin|setup|api/v1)(?:/.*)?\Z", "", parts.path)
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), "", ""))
