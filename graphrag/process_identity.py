"""Names the processes that hold leases, and says of one whether it has ended.

A process number means something only where it was given: two containers may share a host name, and each
has a process 1. So a name begins with the host, the start of its kernel and the namespace of its numbers.
"""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

_of_this_process: set[str] = set()


def new_owner() -> str:
    """Return a name for this process: where its number counts, its number and something nobody else has."""
    owner = f"{_place()}/{os.getpid()}/{secrets.token_hex(6)}"
    _of_this_process.add(owner)
    return owner


@cache
def _place() -> str:
    """Return what is the same for the processes whose numbers this one can look up."""
    boot = namespace = ""
    with suppress(OSError):  # only Linux tells
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").stat().st_ino)
    return ":".join(part for part in (socket.gethostname(), boot, namespace) if part)


def is_local_process_dead(owner: str, mine: str) -> bool:
    """Say whether the owner was a process here that has ended. Of others nothing is known."""
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
