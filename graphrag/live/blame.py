"""Finds the author, time and reason of the present value of each field of a node, from the history
of its graph.

The history is read once, the latest revision first. Only the paths named by each edit are compared,
so the cost depends on the size of the changes and not on that of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, cast

from datasources.base import RecordStore
from datasources.types import Node
from graphrag.changes.field_diff import field_changes
from graphrag.live.past_graph import PAST_LIMITS, Present, Rewound, plain
from graphrag.live.revisions import Revision, Revisions
from graphrag.workers import run_limited
from tools.actions.field_changes import value_at

Path = tuple[str, ...]
# Levels of nesting; deeper fields are treated as one value.
DEPTH = 4
MAX_FIELDS = 500
_FIXED = frozenset(("_key", "graphKey"))


@dataclass(frozen=True, slots=True)
class FieldBlame:
    """A field, given by its path, and the revision that set its value."""

    field: Path
    revision: Revision


async def blame(
    records: RecordStore, now: Present, node: Node
) -> tuple[list[FieldBlame], int | None]:
    """Returns the origin of each field of a node and, if some are missing, the time of the oldest
    stored edit.

    Omits fields whose value is older than the history. The time is None if nothing is missing or no
    edits were deleted. Raises: SourceError.
    """
    origins = await run_limited(_Origins, now, node)
    history = Revisions(records, now.state.graph.key, now.unsaved, with_undo=True)
    batch: list[Revision] = []
    count = 0
    async with aclosing(history.newest_first(node=node.key)) as revisions:
        async for revision in revisions:
            count += 1
            if count > PAST_LIMITS.revisions or not origins.remaining:
                break
            if now.holds(revision):
                batch.append(revision)
            if len(batch) == PAST_LIMITS.at_once:
                await run_limited(origins.undo, batch)
                batch = []
    await run_limited(origins.undo, batch)
    blames = sorted(origins.blames, key=lambda field_blame: field_blame.field)
    return blames, history.cut_at if origins.remaining else None


class _Origins:
    """The fields of a node without a known origin (`remaining`), and the `blames` of the others."""

    def __init__(self, now: Present, node: Node) -> None:
        self._key = node.key
        self._rewound = Rewound(now.state.graph, {node.key: node}, {})
        self.remaining = dict.fromkeys(islice(_fields(plain(node)), MAX_FIELDS))
        self.blames: list[FieldBlame] = []
        self._below: dict[Path, list[Path]] = {}
        for field in self.remaining:
            for end in range(len(field) + 1):
                self._below.setdefault(field[:end], []).append(field)

    def undo(self, revisions: Sequence[Revision]) -> None:
        """Undoes revisions of the node, the latest first, and records them as the origin of the
        fields that they changed.
        """
        for revision in revisions:
            for path in [()] if revision.kind == "created" else self._changed(revision):
                self._set_origin(path, revision)
            if not self.remaining:
                return

    def _set_origin(self, path: Path, revision: Revision) -> None:
        """Records the origin of the fields at a path, of those below it, and of those that contain
        it.
        """
        for field in (*self._below.pop(path, ()), *(path[:end] for end in range(len(path)))):
            if field in self.remaining:
                del self.remaining[field]
                self.blames.append(FieldBlame(field, revision))

    def _changed(self, revision: Revision) -> Iterator[Path]:
        after = self._rewound.nodes.get(self._key)
        self._rewound.undo(revision, node=self._key)
        before = self._rewound.nodes.get(self._key)
        if before is after:
            return
        if before is None or after is None:
            yield ()
            return
        old = plain(before)
        new = plain(after)
        for path in _changed_paths(revision, self._key):
            old_value = {"": value_at(old, path)}
            new_value = {"": value_at(new, path)}
            # A field whose value is None was added or removed.
            if old_value[""] is None and new_value[""] is None:
                yield path
            for change in field_changes(old_value, new_value):
                yield (*path, *change.path[1:])


def _changed_paths(revision: Revision, key: str) -> set[Path]:
    """Returns the paths at which a revision may have changed a node; a list counts as one value."""
    entries = revision.edit.entries if revision.edit is not None else ()
    if revision.edit is None or any("nodes" in entry for entry in entries):
        return {()}
    updates = (entry for entry in entries if entry.get("nodeId") == key)
    instructions = (i for entry in updates for i in entry.get("reversedInstruction") or ())
    paths = (path for i in instructions for path in (i.get("p"), i.get("d")) if path is not None)
    return {tuple(takewhile(lambda part: not part.isdigit(), path)) for path in paths}


def _fields(value: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    for name, inner in value.items():
        here = (*path, name)
        if here[0] in _FIXED:
            continue
        if isinstance(inner, Mapping) and inner and len(here) < DEPTH:
            yield from _fields(cast(Mapping[str, Any], inner), here)
        else:
            yield here
