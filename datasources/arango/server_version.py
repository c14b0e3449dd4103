"""Which servers this adapter works with."""

from __future__ import annotations

import re
from typing import Any

from arango.database import StandardDatabase

from datasources.errors import SourceUnavailable

OLDEST = (3, 12, 4)
"""Earlier 3.12 servers sort wrongly by some indexes. Source: ArangoDB 3.12 release notes."""

SAFE = (3, 12, 11)
"""Whoever reaches an earlier server may get in without signing in. Source: GHSA-rrgq-978q-36mq."""


def version_of(database: StandardDatabase) -> tuple[int, ...]:
    """Return the server's version as numbers, none where it does not tell it: see `--server.harden`."""
    answer: Any = database.version(details=True)
    return tuple(int(part) for part in re.findall(r"\d+", str(answer.get("version", "")))[:3])


def shown(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def refuse_old(database: StandardDatabase, *, source: str) -> None:
    """Raises: SourceUnavailable where the server is older than any this adapter works with."""
    version = version_of(database)
    if version and version < OLDEST:
        reason = f"ArangoDB {shown(version)} is too old; upgrade the server to {shown(OLDEST)} or later"
        raise SourceUnavailable(source=source, reason=reason)
