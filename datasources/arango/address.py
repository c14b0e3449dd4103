"""Parses and displays the address of an ArangoDB database:
`arango+http://user:pass@host:8529/name`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from datasources.errors import InvalidDatabaseUrl

DEFAULT_PORT = 8529
DEFAULT_TIMEOUT_S = 30.0
MAX_TIMEOUT_S = 600.0
SCHEMES: Mapping[str, str] = {"arango+http": "http", "arango+https": "https"}
_OPTIONS = ("password_file", "verify", "timeout")
_FORM = "arango+http://USER:PASSWORD@HOST:8529/DATABASE"
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
class ArangoAddress:
    """The address of a database with the user. Several hosts are servers of one deployment, tried
    in order.

    `verify` is False (accepts any certificate), True, or the file of a certificate authority.
    `timeout_s` is the maximum wait for one answer.
    """

    hosts: tuple[str, ...]
    database: str
    user: str
    password: str = field(repr=False)
    verify: bool | str = True
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def shown(self) -> str:
        """The address without the password."""
        scheme = self.hosts[0].partition("://")[0]
        hosts = ",".join(host.partition("://")[2] for host in self.hosts)
        return f"arango+{scheme}://{self.user}@{hosts}/{self.database}"


def is_arango(url: str) -> bool:
    return url.partition(":")[0] in SCHEMES


def parse_address(url: str) -> ArangoAddress:
    """Returns a parsed address. Several hosts are separated by commas.

    Options after `?`: `password_file=PATH`, `verify=no` or `verify=PATH`, `timeout=SECONDS`.
    Raises: InvalidDatabaseUrl, which does not show the password.
    """
    try:
        return _address(url)
    except ValueError as exc:
        raise InvalidDatabaseUrl(url=url, reason=str(exc)) from exc


def _address(url: str) -> ArangoAddress:
    """Returns the parsed address. Raises: ValueError with the reason."""
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise ValueError(f"it must read {_FORM}")
    scheme = SCHEMES.get(parts["scheme"].lower())
    if scheme is None:
        raise ValueError(f"unknown scheme {parts['scheme']!r}")
    login, _, places = parts["netloc"].rpartition("@")
    path = parts["path"]
    query = parts["query"] or ""
    fragment = parts["fragment"] or ""
    if "@" in path or "@" in fragment or ("@" in query and not login):
        raise ValueError(_ENCODE)
    user, _, password = login.partition(":")
    database = unquote(path.removeprefix("/"))
    if not places or not database or "/" in database:
        raise ValueError(f"it must read {_FORM}")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options.keys() - set(_OPTIONS):
        raise ValueError(f"unknown option {name!r}; there are {', '.join(_OPTIONS)}")
    file = options.get("password_file")
    return ArangoAddress(
        hosts=tuple(f"{scheme}://{_place(place)}" for place in places.split(",")),
        database=database,
        user=unquote(user) or "root",
        password=unquote(password) if file is None else _password(Path(file)),
        verify=_verify(options.get("verify", "yes")),
        timeout_s=_timeout(options.get("timeout", str(DEFAULT_TIMEOUT_S))),
    )


def _place(place: str) -> str:
    """Returns a host with its port. Raises: ValueError, also for an invalid port."""
    try:
        parts = urlsplit(f"//{place}")
    except ValueError as exc:  # brackets without an address
        raise ValueError(f"it must read {_FORM}") from exc
    host = parts.hostname
    port = parts.port or DEFAULT_PORT
    if not host:
        raise ValueError("a host is missing")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _password(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as exc:
        raise ValueError(f"the password file {file} cannot be read: {exc}") from exc


def _verify(given: str) -> bool | str:
    if given in ("yes", "no"):
        return given == "yes"
    if not Path(given).exists():
        raise ValueError(f"verify: there is no file {given!r} of a certificate authority")
    return given


def _timeout(given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise ValueError(f"timeout must be a number of seconds up to {MAX_TIMEOUT_S:g}")
    return seconds
