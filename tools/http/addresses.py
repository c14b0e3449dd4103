"""Decides which hosts the requests of a document may reach, and looks names up.

A name is looked up once, every address it has must be allowed, and the connection is made to one of
the addresses that were checked.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit


class AddressRefused(Exception):
    """A host may not be reached. `why` is for the log and for people who write documents."""

    def __init__(self, *, host: str, why: str) -> None:
        self.host = host
        self.why = why
        super().__init__(f"{host}: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a request goes: the scheme, the host as it is looked up, the port."""

    scheme: str
    host: str
    port: int

    @property
    def is_default_port(self) -> bool:
        return self.port == (443 if self.scheme == "https" else 80)

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.is_default_port else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}"


def origin_of(url: str) -> Origin:
    """Return where a URL leads. Raises: ValueError, saying what is wrong with it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError("the scheme is http or https")
    if "@" in parts.netloc:
        raise ValueError("no user or password stands in an address")
    if not parts.hostname or "%" in parts.hostname:
        raise ValueError("there is no host")
    try:
        host = (
            parts.hostname.encode("idna").decode() if ":" not in parts.hostname else parts.hostname
        )
        port = parts.port
    except UnicodeError as exc:
        raise ValueError("the host is no name") from exc
    if port == 0:
        raise ValueError("a port is 1 to 65535")
    return Origin(
        scheme=parts.scheme,
        host=host.rstrip("."),
        port=port or (443 if parts.scheme == "https" else 80),
    )


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address is this computer's own."""
    bare = host.strip("[]").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    address = _address_of(bare)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address is not None and (mapped or address).is_loopback


def host_matches(pattern: str, host: str, port: int) -> bool:
    """Return whether a host is meant by `name`, `name:port` or `*.name`; no port means any."""
    parts = _PATTERN.match(pattern.casefold())
    name, wanted = (parts[1], parts[2]) if parts else (pattern.casefold(), None)
    if wanted and int(wanted) != port:
        return False
    name = name.strip("[]")
    host = host.casefold()
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


_PATTERN = re.compile(r"(\[[^\]]+\]|[^:]+)(?::([0-9]{1,5}))?\Z")


Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name. Raises: OSError."""

METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
"""Where clouds tell a machine its keys; some of them are global addresses. Opened by
exact address only.
"""

_NAT64 = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")
_ALSO_PRIVATE = tuple(
    ip_network(text)
    for text in (
        *("192.88.99.0/24", "::/96", "64:ff9b:1::/48", "100:0:0:1::/64", "2001::/23", "3fff::/20"),
        *("5f00::/16", "fec0::/10", "2002::/16"),
    )
)
"""Special addresses that `ipaddress` calls global in some versions of Python."""
_LOOKUPS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="lookup")
"""Threads of their own: a name server that does not answer holds up nothing else."""


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Look a name up as the machine does, beside the event loop."""
    loop = asyncio.get_running_loop()
    look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await loop.run_in_executor(_LOOKUPS, look)
    return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRules:
    """Which hosts may be reached: the public ones, and what the administrator lists.

    `allow`: `localhost:3000`, `10.1.0.0/16`, `api.internal:8443`; opens what is not public. `only`:
    patterns as `*.example.com`; closes all others. `own`: where the service itself listens, refused
    always. Without a port, a listed host is open at every port.
    """

    allow: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    own: tuple[tuple[str, int], ...] = ()
    resolver: Resolver = system_resolver

    def __post_init__(self) -> None:
        for entry in self.allow:
            if "/" in entry:
                ip_network(entry, strict=False)

    def check_name(self, host: str, port: int) -> None:
        """Check what can be said of a host without looking it up. Raises: AddressRefused."""
        last = host.rpartition(".")[2]
        literal = _address_of(host)
        if literal is None and (last.isdigit() or re.fullmatch(r"0[xX][0-9A-Fa-f]*", last)):
            raise AddressRefused(host=host, why="this is an odd spelling of an address")
        if any(port == own and host.casefold() == place.casefold() for place, own in self.own):
            raise AddressRefused(host=host, why="this is the service itself")
        if self.only and not any(host_matches(pattern, host, port) for pattern in self.only):
            raise AddressRefused(host=host, why="the administrator allows other hosts only")
        if literal is not None:
            self._check_address(host, port, literal)

    async def check(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, all of them allowed, each once.

        Raises: AddressRefused; OSError where the name cannot be looked up.
        """
        self.check_name(host, port)
        literal = _address_of(host)
        if literal is not None:
            return [str(literal)]
        found = dict.fromkeys(await self.resolver(host, port))
        if not found:
            raise OSError(f"{host} has no address")
        for text in found:
            address = _address_of(text)
            if address is None:
                raise AddressRefused(host=host, why="its address cannot be read")
            self._check_address(host, port, address)
        return list(found)

    def is_own_port(self, port: int) -> bool:
        """Return whether the service listens at a port."""
        return any(port == own for _, own in self.own)

    def _check_address(self, host: str, port: int, address: Address) -> None:
        by_name = any("/" not in entry and host_matches(entry, host, port) for entry in self.allow)
        for form in (address, *_inner(address)):
            if any(port == own and _is_own(form, place) for place, own in self.own):
                raise AddressRefused(host=host, why="this is the service itself")
            if self._is_listed(form, port) or (by_name and form not in METADATA):
                continue
            if form in METADATA or not _is_public(form):
                raise AddressRefused(host=host, why=f"{address} is not public, and is not listed")

    def _is_listed(self, address: Address, port: int) -> bool:
        return any(
            address not in METADATA and address in ip_network(entry, strict=False)
            if "/" in entry
            else host_matches(entry, str(address), port)
            for entry in self.allow
        )


def _address_of(host: str) -> Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _inner(address: Address) -> list[Address]:
    """Return the IPv4 addresses that an IPv6 address stands for."""
    if isinstance(address, IPv4Address):
        return []
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        inner.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [form for form in inner if form is not None]


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return True  # the address inside is checked
    special = any(address in network for network in _ALSO_PRIVATE)
    return address.is_global and not address.is_multicast and not special


def _is_own(address: Address, place: str) -> bool:
    """Return whether the service that listens at `place` is reached at an address."""
    listens = _address_of(place)
    if listens is None:
        return place == "localhost" and address.is_loopback
    everywhere = listens.is_unspecified or listens.is_loopback
    return address == listens or (everywhere and (address.is_loopback or address.is_unspecified))
