"""Parses and displays the address of a PostgreSQL database: `postgres://user:pass@host:5432/name`.

Options of libpq after `?` are passed on to it; their meaning is documented in "Database Connection
Control Functions" of the PostgreSQL manual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

from datasources.errors import InvalidDatabaseUrl
from datasources.server_address import (
    AddressParts,
    host_and_port,
    shown_place,
    split_address,
    timeout_s,
)

DEFAULT_PORT = 5432
DEFAULT_TIMEOUT_S = 30.0
DEFAULT_POOL = 10
MAX_POOL = 1_000
SCHEMES = ("postgres", "postgresql")
_FORM = "postgres://USER:PASSWORD@HOST:5432/DATABASE"
_OWN_OPTIONS = ("password_file", "timeout", "pool")
_PLACE_OPTIONS = ("host", "port")
# Default options for libpq. A server that does not accept writes is
# passed over; a host that does not answer is given up after `connect_timeout` seconds. The
# connection to a server that vanished without a word is lost after half a minute: 10 + 4 * 5 s.
_DEFAULTS: Mapping[str, str] = {
    "target_session_attrs": "read-write",
    "connect_timeout": "5",
    "application_name": "nodius",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",  # ms
}
# Options of libpq that an address may contain, with their values where there are few.
_LIBPQ_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "application_name": (),
    "channel_binding": ("require", "prefer", "disable"),
    "connect_timeout": (),
    "gssencmode": ("disable", "prefer", "require"),
    "keepalives": ("0", "1"),
    "keepalives_count": (),
    "keepalives_idle": (),
    "keepalives_interval": (),
    "krbsrvname": (),
    "load_balance_hosts": ("disable", "random"),
    "options": (),
    "passfile": (),
    "require_auth": (),
    "sslcert": (),
    "sslcrl": (),
    "sslkey": (),
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": ("postgres", "direct"),
    "sslrootcert": (),
    "sslsni": ("0", "1"),
    "target_session_attrs": (
        "any",
        "read-write",
        "read-only",
        "primary",
        "standby",
        "prefer-standby",
    ),
    "tcp_user_timeout": (),
}
_FILES = ("passfile", "sslcert", "sslcrl", "sslkey", "sslrootcert")
_WHOLE_NUMBERS = (
    "connect_timeout",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "tcp_user_timeout",
)
_KNOWN = (*_OWN_OPTIONS, *_PLACE_OPTIONS, *_LIBPQ_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAddress:
    """The address of a database with the user. Several hosts are servers of one deployment; libpq
    uses the first one that accepts writes.

    `conninfo` is the address for libpq. `user` is empty if libpq chooses it (the operating
    system's user). A host that begins with `/` is the folder of a Unix socket. `timeout_s` is the
    maximum duration of one statement, `pool` the maximum number of connections.
    """

    conninfo: str = field(repr=False)
    hosts: tuple[tuple[str, int], ...]
    database: str
    user: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    pool: int = DEFAULT_POOL

    @property
    def shown(self) -> str:
        """The address without the password and without options."""
        login = f"{quote(self.user, safe='')}@" if self.user else ""
        database = quote(self.database, safe="")
        if any(host.startswith("/") for host, _ in self.hosts):
            return f"postgres://{login}/{database}?{_places(self.hosts)}"
        places = ",".join(shown_place(*place) for place in self.hosts)
        return f"postgres://{login}{places}/{database}"


def is_postgres(url: str) -> bool:
    return url.partition(":")[0] in SCHEMES


def parse_address(url: str) -> PostgresAddress:
    """Returns a parsed address. Several hosts are separated by commas; a Unix socket is
    `?host=/run/postgresql`.

    Own options after `?`: `password_file=PATH`, `timeout=SECONDS` and `pool=CONNECTIONS`; the
    others are libpq's.
    Raises: InvalidDatabaseUrl, which does not show the password.
    """
    try:
        return _address(url)
    except ValueError as exc:
        raise InvalidDatabaseUrl(url=url, reason=str(exc)) from exc


def _address(url: str) -> PostgresAddress:
    """Returns the parsed address. Raises: ValueError with the reason."""
    parts = split_address(url, form=_FORM, known_options=_KNOWN)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {parts.scheme!r}")
    hosts = _hosts(parts)
    libpq = {name: value for name, value in parts.options.items() if name in _LIBPQ_OPTIONS}
    for name, value in libpq.items():
        _check(name, value)
    secret = f":{quote(parts.password, safe='')}" if parts.password else ""
    login = f"{quote(parts.user, safe='')}{secret}@" if parts.user else ""
    if secret and not login:
        raise ValueError("the password is given without a user; write USER:PASSWORD@HOST")
    conninfo = f"postgresql://{login}/{quote(parts.database, safe='')}?{_places(hosts)}"
    conninfo += f"&{urlencode({**_DEFAULTS, **libpq}, quote_via=quote)}"
    if "%00" in conninfo:
        raise ValueError("%00 is not allowed")
    return PostgresAddress(
        conninfo=conninfo,
        hosts=hosts,
        database=parts.database,
        user=parts.user,
        timeout_s=timeout_s(parts.options.get("timeout", str(DEFAULT_TIMEOUT_S))),
        pool=_pool(parts.options.get("pool", str(DEFAULT_POOL))),
    )


def _hosts(parts: AddressParts) -> tuple[tuple[str, int], ...]:
    """Returns the hosts of an address, or of its options `host` and `port`."""
    if parts.places:
        if {"host", "port"} & parts.options.keys():
            raise ValueError("it has two hosts or ports; write them after @ or as ?host=…&port=…")
        return tuple(
            host_and_port(place, default_port=DEFAULT_PORT, form=_FORM) for place in parts.places
        )
    hosts = parts.options.get("host", "").split(",")
    ports = parts.options.get("port", str(DEFAULT_PORT)).split(",")
    if not all(hosts):
        raise ValueError(
            "a host is missing; write it after @, or a Unix socket as ?host=/run/postgresql"
        )
    if len(ports) == 1:
        ports *= len(hosts)
    if len(ports) != len(hosts):
        raise ValueError(f"there are {len(hosts)} hosts but {len(ports)} ports")
    return tuple((host, _port(port)) for host, port in zip(hosts, ports, strict=True))


def _port(given: str) -> int:
    port = _whole(given)
    if not 0 < port < 65_536:
        raise ValueError(f"port {given!r} must be a number from 1 to 65535")
    return port


def _places(hosts: tuple[tuple[str, int], ...]) -> str:
    """Returns the hosts and ports as options of an address."""
    names = ",".join(quote(host, safe="/:") for host, _ in hosts)
    return f"host={names}&port={','.join(str(port) for _, port in hosts)}"


def _check(name: str, value: str) -> None:
    """Raises: ValueError for a value that libpq refuses, or would only fail on when connecting."""
    allowed = _LIBPQ_OPTIONS[name]
    if allowed and value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}")
    if name in _WHOLE_NUMBERS and _whole(value) < 0:
        raise ValueError(f"{name} must be a whole number")
    if name in _FILES and not _is_no_file(name, value) and not Path(value).exists():
        raise ValueError(f"{name}: there is no file {value!r}")


def _is_no_file(name: str, value: str) -> bool:
    """Returns True for values with which libpq takes what the operating system has."""
    return name == "sslrootcert" and value == "system"


def _whole(given: str) -> int:
    """Returns a whole number, -1 for anything else."""
    return int(given) if given.isascii() and given.isdigit() else -1


def _pool(given: str) -> int:
    connections = _whole(given)
    if not 2 <= connections <= MAX_POOL:
        raise ValueError(f"pool must be a number of connections from 2 to {MAX_POOL}")
    return connections
