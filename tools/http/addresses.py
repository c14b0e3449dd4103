"""Decides which hosts the requests of a document may reach, and looks names up.

A name is looked up once, every address it has must be allowed, and the connection is made to one of the
addresses that were checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


class AddressRefused(Exception):
    """A host may not be reached. `why` is for the log and for people who write documents."""

    def __init__(self, *, host: str, why: str) -> None:
        self.host, self.why = host, why
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
        host = parts.hostname.encode("idna").decode() if ":" not in parts.hostname else parts.hostname
        port = parts.port
    except UnicodeError as exc:
        raise ValueError("the host is no name") from exc
    if port == 0:
        raise ValueError("a port is 1 to 65535")
    return Origin(
        scheme=parts.scheme, host=host.rstrip("."), port=port or (443 if parts.scheme == "https" else 80)
    )


def host_matches(pattern: str, host: str, port: int) -> bool:
    """Return whether a host is meant by `name`, `name:port` or `*.name`; no port means any."""
    name, _, wanted = pattern.casefold().rpartition(":")
    if not wanted.isdigit() or name.endswith(":") or (":" in name and not name.startswith("[")):
        name, wanted = pattern.casefold(), ""
    if wanted and int(wanted) != port:
        return False
    name, host = name.strip("[]"), host.casefold()
    return host.endswith(name[1:]) if name.startswith("*.") else host == name
