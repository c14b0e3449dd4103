"""The parts of the address of a database on a server: `SCHEME://USER:PASSWORD@HOST,HOST2/NAME?OPTIONS`.

Independent of the kind of database. Functions raise ValueError with the reason; it never contains
the password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

MAX_TIMEOUT_S = 600.0
_ENCODE = "write / ? # @ and % of a password as %2F %3F %23 %40 %25, or put it in a file: ?password_file=PATH"
_PARTS = re.compile(
    r"(?P<scheme>[^:/?#]+)://(?P<netloc>[^/?#]*)(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
"""The parts of a URI (RFC 3986, appendix B). In some versions of Python, `urlsplit` rejects several
hosts if one of them is in brackets.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressParts:
    """A split address. All parts are decoded, except `places`, the hosts with their ports."""

    scheme: str
    user: str
    password: str = field(repr=False)
    places: tuple[str, ...]
    database: str
    options: Mapping[str, str] = field(repr=False)


def split_address(url: str, *, form: str, known_options: tuple[str, ...]) -> AddressParts:
    """Returns the parts of an address. `form` is the example that an error shows.

    Option `password_file` replaces the password by the content of a file.
    """
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise ValueError(f"it must read {form}")
    login, _, places = parts["netloc"].rpartition("@")
    path = parts["path"]
    query = parts["query"] or ""
    fragment = parts["fragment"] or ""
    if "@" in path or "@" in fragment or ("@" in query and not login):
        raise ValueError(_ENCODE)
    user, _, password = login.partition(":")
    options = _options(query, known_options)
    file = options.get("password_file")
    database = unquote(path.removeprefix("/"))
    if not database or "/" in database:
        raise ValueError(f"it must read {form}")
    return AddressParts(
        scheme=parts["scheme"].lower(),
        user=unquote(user),
        password=unquote(password) if file is None else _password(Path(file)),
        places=tuple(places.split(",")) if places else (),
        database=database,
        options=options,
    )


def _options(query: str, known: tuple[str, ...]) -> dict[str, str]:
    """Returns the options after `?`. A `+` stands for itself, as in a path."""
    options = dict[str, str]()
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        name = unquote(name)
        if name not in known:
            raise ValueError(f"unknown option {name!r}; there are {', '.join(known)}")
        options[name] = unquote(value)
    return options


def host_and_port(place: str, *, default_port: int, form: str) -> tuple[str, int]:
    """Returns the host (an IPv6 address without brackets) and the port of a place."""
    try:
        parts = urlsplit(f"//{place}")
    except ValueError as exc:  # brackets without an address
        raise ValueError(f"it must read {form}") from exc
    port = parts.port or default_port
    if not parts.hostname:
        raise ValueError("a host is missing")
    return parts.hostname, port


def shown_place(host: str, port: int) -> str:
    """Returns a host and its port as an address shows them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _password(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as exc:
        raise ValueError(f"the password file {file} cannot be read: {exc}") from exc


def timeout_s(given: str) -> float:
    """Returns the value of option `timeout`."""
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise ValueError(f"timeout must be a number of seconds up to {MAX_TIMEOUT_S:g}")
    return seconds
