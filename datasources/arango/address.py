"""Parses and displays the address of an ArangoDB database:
`arango+http://user:pass@host:8529/name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from datasources.errors import InvalidDatabaseUrl
from datasources.server_address import host_and_port, shown_place, split_address, timeout_s

DEFAULT_PORT = 8529
DEFAULT_TIMEOUT_S = 30.0
SCHEMES: Mapping[str, str] = {"arango+http": "http", "arango+https": "https"}
_OPTIONS = ("password_file", "verify", "timeout")
_FORM = "arango+http://USER:PASSWORD@HOST:8529/DATABASE"


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
    parts = split_address(url, form=_FORM, known_options=_OPTIONS)
    scheme = SCHEMES.get(parts.scheme)
    if scheme is None:
        raise ValueError(f"unknown scheme {parts.scheme!r}")
    if not parts.places:
        raise ValueError(f"it must read {_FORM}")
    places = [host_and_port(p, default_port=DEFAULT_PORT, form=_FORM) for p in parts.places]
    return ArangoAddress(
        hosts=tuple(f"{scheme}://{shown_place(*place)}" for place in places),
        database=parts.database,
        user=parts.user or "root",
        password=parts.password,
        verify=_verify(parts.options.get("verify", "yes")),
        timeout_s=timeout_s(parts.options.get("timeout", str(DEFAULT_TIMEOUT_S))),
    )


def _verify(given: str) -> bool | str:
    if given in ("yes", "no"):
        return given == "yes"
    if not Path(given).exists():
        raise ValueError(f"verify: there is no file {given!r} of a certificate authority")
    return given
