"""Tells which pages may call: a server without sign-in answers this computer's own pages alone.

A site that somebody visits can make their browser call an address of this computer. The name it
called (Host) and the page that called (Origin) give it away, also when a name was made to point here.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from server.errors import ForeignPage
from tools.http.addresses import is_loopback


def check_own_page(connection: HTTPConnection) -> None:
    """Let only this computer in, and only its own pages. Raises: ForeignPage."""
    peer = connection.client.host if connection.client else ""
    called = _host(f"//{connection.headers.get('host', '')}")
    origin = connection.headers.get("origin")
    if not is_loopback(peer) or not is_loopback(called):
        raise ForeignPage
    if origin is not None and authority(origin) != connection.headers.get("host", "").lower():
        raise ForeignPage


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def authority(url: str) -> str:
    """Return host and port of an address, "" where it is none."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""
