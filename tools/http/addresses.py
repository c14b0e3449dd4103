"""Checks which hosts the requests of a document may connect to, and resolves names.

A name is resolved once. All of its addresses must be allowed, and the connection is made to one of
the checked addresses, so a second DNS answer cannot lead elsewhere.
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
    """Raised when connecting to a host is not allowed. `why` is for logs and document authors."""

    def __init__(self, *, host: str, why: str) -> None:
        self.host = host
        self.why = why
        super().__init__(f"{host}: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a URL: scheme, host (in its IDNA form) and port."""

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
    """Returns the origin of a URL. Raises: ValueError with the reason if it is not allowed."""
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
    """Returns whether a host name or address is a loopback address."""
    bare = host.strip("[]").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    address = _address_of(bare)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address is not None and (mapped or address).is_loopback


def host_matches(pattern: str, host: str, port: int) -> bool:
    """Returns whether a host matches the pattern `name`, `name:port` or `*.name`.

    Without a port the pattern matches every port.
    """
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
"""Resolves a host name and port to addresses. Raises: OSError."""

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
"""Metadata services of cloud providers, which hand out credentials. Some are global addresses.
They are allowed only if listed by their exact address.
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
"""Special networks that `ipaddress` treats as global in some versions of Python."""
_LOOKUPS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="lookup")
"""Separate threads, so that an unresponsive name server blocks nothing else."""


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Resolves a name with the system resolver in a thread."""
    loop = asyncio.get_running_loop()
    resolve = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    infos = await loop.run_in_executor(_LOOKUPS, resolve)
    return [str(address[0]) for *_, address in infos]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRules:
    """The hosts that may be reached: public ones, and those listed by the administrator.

    `allow`: hosts or networks that are not public, as `localhost:3000`, `10.1.0.0/16`,
    `api.internal:8443`. `only`: if not empty, patterns (as `*.example.com`) that every host must
    match. `own`: the addresses on which the service itself listens, always refused. An entry
    without a port applies to every port.
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
        """Runs the checks that need no name resolution. Raises: AddressRefused."""
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
        """Returns the distinct addresses of a host, after checking all of them.

        Raises: AddressRefused; OSError if the name cannot be resolved.
        """
        self.check_name(host, port)
        literal = _address_of(host)
        if literal is not None:
            return [str(literal)]
        addresses = dict.fromkeys(await self.resolver(host, port))
        if not addresses:
            raise OSError(f"{host} has no address")
        for text in addresses:
            address = _address_of(text)
            if address is None:
                raise AddressRefused(host=host, why="its address cannot be read")
            self._check_address(host, port, address)
        return list(addresses)

    def is_own_port(self, port: int) -> bool:
        """Returns whether the service itself listens on a port."""
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
    """Returns the IPv4 addresses embedded in an IPv6 address."""
    if isinstance(address, IPv4Address):
        return []
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        inner.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [form for form in inner if form is not None]


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return True  # the embedded IPv4 address is checked
    special = any(address in network for network in _ALSO_PRIVATE)
    return address.is_global and not address.is_multicast and not special


def _is_own(address: Address, place: str) -> bool:
    """Returns whether `address` reaches the service that listens on `place`."""
    listen_address = _address_of(place)
    if listen_address is None:
        return place == "localhost" and address.is_loopback
    everywhere = listen_address.is_unspecified or listen_address.is_loopback
    return address == listen_address or (
        everywhere and (address.is_loopback or address.is_unspecified)
    )
