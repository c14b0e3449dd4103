"""The address of an ArangoDB database: `arango+http://user:pass@host:8529/name`, understood and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from datasources.errors import InvalidDatabaseUrl

DEFAULT_PORT = 8529
DEFAULT_TIMEOUT_S = 30.0
MAX_TIMEOUT_S = 600.0
SCHEMES: Mapping[str, str] = {"arango+http": "http", "arango+https": "https"}
_OPTIONS = ("password_file", "verify", "timeout")
_FORM = "arango+http://USER:PASSWORD@HOST:8529/DATABASE"
_ENCODE = "write / ? # @ and % of a password as %2F %3F %23 %40 %25, or put it in a file: ?password_file=PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArangoAddress:
    """Where a database is and who asks. Several hosts are servers of one deployment, tried in order.

    `verify` is False (any certificate is taken), True, or the file of a certificate authority.
    Units: `timeout_s` bounds the wait for one answer.
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
    """Read an address; several hosts stand with commas between them.

    Options after `?`: `password_file=PATH`, `verify=no` or `verify=PATH`, `timeout=SECONDS`.
    Raises: InvalidDatabaseUrl, which does not show the password.
    """
    parts = _split(url)
    scheme = SCHEMES.get(parts.scheme)
    if scheme is None:
        raise InvalidDatabaseUrl(url=url, reason=f"unknown scheme {parts.scheme!r}")
    login, _, places = parts.netloc.rpartition("@")
    if "@" in parts.path or "@" in parts.fragment or ("@" in parts.query and not login):
        raise InvalidDatabaseUrl(url=url, reason=_ENCODE)
    user, _, password = login.partition(":")
    database = unquote(parts.path.removeprefix("/"))
    if not places or not database or "/" in database:
        raise InvalidDatabaseUrl(url=url, reason=f"it must read {_FORM}")
    options = _options(url, parts.query)
    if "password_file" in options:
        password = _password(url, Path(options["password_file"]))
    return ArangoAddress(
        hosts=tuple(f"{scheme}://{_place(url, place)}" for place in places.split(",")),
        database=database,
        user=unquote(user) or "root",
        password=password if "password_file" in options else unquote(password),
        verify=_verify(url, options.get("verify", "yes")),
        timeout_s=_timeout(url, options.get("timeout")),
    )


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as exc:  # brackets that enclose no address
        raise InvalidDatabaseUrl(url=url, reason=f"it must read {_FORM}") from exc


def _options(url: str, query: str) -> dict[str, str]:
    found = dict(parse_qsl(query, keep_blank_values=True))
    for name in found:
        if name not in _OPTIONS:
            reason = f"unknown option {name!r}; there are {', '.join(_OPTIONS)}"
            raise InvalidDatabaseUrl(url=url, reason=reason)
    return found


def _place(url: str, place: str) -> str:
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError as exc:
        raise InvalidDatabaseUrl(url=url, reason=f"host {place!r}: {exc}") from exc
    if not host:
        raise InvalidDatabaseUrl(url=url, reason="a host is missing")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _password(url: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidDatabaseUrl(url=url, reason=f"the password file {file} cannot be read: {exc}") from exc


def _verify(url: str, given: str) -> bool | str:
    if given in ("yes", "no"):
        return given == "yes"
    if not Path(given).exists():
        reason = f"verify: there is no file {given!r} of a certificate authority"
        raise InvalidDatabaseUrl(url=url, reason=reason)
    return given


def _timeout(url: str, given: str | None) -> float:
    try:
        seconds = DEFAULT_TIMEOUT_S if given is None else float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT_S:
        reason = f"timeout must be a number of seconds up to {MAX_TIMEOUT_S:g}"
        raise InvalidDatabaseUrl(url=url, reason=reason)
    return seconds
