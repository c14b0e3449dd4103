"""Which servers this adapter works with."""

from __future__ import annotations

import re
from typing import Any

from arango.database import StandardDatabase

from datasources.errors import SourceUnavailable

OLDEST = (3, 11)
FULL = (3, 12, 4)
"""Earlier 3.12 servers sort wrongly by some indexes. Source: ArangoDB 3.12 release notes.

Decision: 3.11, which many installations of Nodius run, is taken for all but speed: every search is the exact
one, and no order is taken from the server. It has the statements' functions but for vector indexes.
"""

SAFE = (3, 12, 11)
"""Whoever reaches an earlier server may get in without signing in. Source: GHSA-rrgq-978q-36mq."""


def version_of(database: StandardDatabase) -> tuple[int, ...]:
    """Return the server's version as numbers, none where it does not tell it: see `--server.harden`."""
    answer: Any = database.version(details=True)
    return tuple(int(part) for part in re.findall(r"\d+", str(answer.get("version", "")))[:3])


def is_exact_only(version: tuple[int, ...]) -> bool:
    """Tell whether a server of this version is searched by exact statements alone."""
    return bool(version) and version < FULL


def why_refused(version: tuple[int, ...]) -> str:
    """Return why a server of this version is not taken; empty for one that is."""
    if version and version < OLDEST:
        return f"is too old: statements need {shown(OLDEST)}"
    return "sorts wrongly by some indexes" if (3, 12) <= version < FULL else ""


def shown(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def refuse_old(database: StandardDatabase, *, source: str) -> None:
    """Raises: SourceUnavailable where this adapter does not work with the server, with the reason."""
    version = version_of(database)
    why = why_refused(version)
    if why:
        reason = f"ArangoDB {shown(version)} {why}; upgrade the server to {shown(FULL)} or later"
        raise SourceUnavailable(source=source, reason=reason)
