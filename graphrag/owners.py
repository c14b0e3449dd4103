"""Names the processes that hold leases, and tells of one whether it is no more."""

from __future__ import annotations

import os
import secrets
import socket

_of_this_process: set[str] = set()


def new_owner() -> str:
    """Return a name for this process: its machine, its number and something nobody else has."""
    owner = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(6)}"
    _of_this_process.add(owner)
    return owner


def is_dead_here(owner: str, mine: str) -> bool:
    """Say whether the owner was a process of this machine that is no more. Of others nothing is known."""
    host, _, rest = owner.partition("/")
    number = rest.partition("/")[0]
    if host != mine.partition("/")[0] or not (number.isascii() and number.isdigit()) or len(number) > 9:
        return False
    if int(number) == os.getpid():  # numbers are given again: in a container always the same
        return owner not in _of_this_process
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
