"""Who gave each field of a node the value it has, when and why: computed from the history
of its graph.

One pass over the history, the latest first. Looked at are the places that each edit names, so the
work grows with what was changed, not with what the node holds.
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
from graphrag.live.past_graph import AT_ONCE, MOST, Present, Rewound, plain
from graphrag.live.revisions import Revision, Revisions
from graphrag.workers import run_limited
from tools.write_tools.field_changes import value_at

Path = tuple[str, ...]
DEPTH = 4
"""Fields nested deeper count as a whole."""
MAX_FIELDS = 500
_FIXED = frozenset(("_key", "graphKey"))


@dataclass(frozen=True, slots=True)
class FieldBlame:
    """A field as a path, and the revision that gave it its value."""

    field: Path
    revision: Revision


async def blame(
    records: RecordStore, now: Present, node: Node
) -> tuple[list[FieldBlame], int | None]:
    """Return who set each field of a node, and the time before which edits were deleted, if
    that left gaps.

    A field whose value is older than the history is left out. Raises: SourceError.
    """
    origins = await run_limited(_Origins, now, node)
    history = Revisions(records, now.state.graph.key, now.unsaved, with_undo=True)
    batch: list[Revision] = []
    count = 0
    async with aclosing(history.newest_first(node=node.key)) as revisions:
        async for revision in revisions:
            count += 1
            if count > MOST or not origins.left:
                break
            if now.holds(revision):
                batch.append(revision)
            if len(batch) == AT_ONCE:
                await run_limited(origins.take_back, batch)
                batch = []
    await run_limited(origins.take_back, batch)
    return sorted(
        origins.found, key=lambda one: one.field
    ), history.cut_at if origins.left else None


class _Origins:
    """The fields of a node whose origin is not known yet (`left`) and those `found`."""

    def __init__(self, now: Present, node: Node) -> None:
        self._key = node.key
        self._rewound = Rewound(now.state.graph, {node.key: node}, {})
        self.left = dict.fromkeys(islice(_fields(plain(node)), MAX_FIELDS))
        self.found: list[FieldBlame] = []
        self._below: dict[Path, list[Path]] = {}
        for field in self.left:
            for end in range(len(field) + 1):
                self._below.setdefault(field[:end], []).append(field)

    def take_back(self, revisions: Sequence[Revision]) -> None:
        """Take revisions of the node back, the latest first; what each had changed has
        its origin there.
        """
        for revision in revisions:
            for path in [()] if revision.kind == "created" else self._changed(revision):
                self._found_at(path, revision)
            if not self.left:
                return

    def _found_at(self, path: Path, revision: Revision) -> None:
        """Note the origin of the fields at a path, below it, and of one that holds it."""
        for field in (*self._below.pop(path, ()), *(path[:end] for end in range(len(path)))):
            if field in self.left:
                del self.left[field]
                self.found.append(FieldBlame(field, revision))

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
        for path in _named(revision, self._key):
            one = {"": value_at(old, path)}
            other = {"": value_at(new, path)}
            if one[""] is None and other[""] is None:  # a field without a value came or went
                yield path
            for change in field_changes(one, other):
                yield (*path, *change.path[1:])


def _named(revision: Revision, key: str) -> set[Path]:
    """Return the places at which a revision can have changed a node; of a list the whole."""
    entries = revision.edit.entries if revision.edit is not None else ()
    if revision.edit is None or any("nodes" in entry for entry in entries):
        return {()}
    own = (one for one in entries if one.get("nodeId") == key)
    undoing = (each for one in own for each in one.get("reversedInstruction") or ())
    places = (
        place for each in undoing for place in (each.get("p"), each.get("d")) if place is not None
    )
    return {tuple(takewhile(lambda part: not part.isdigit(), place)) for place in places}


def _fields(value: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    for name, inner in value.items():
        here = (*path, name)
        if here[0] in _FIXED:
            continue
        if isinstance(inner, Mapping) and inner and len(here) < DEPTH:
            yield from _fields(cast(Mapping[str, Any], inner), here)
        else:
            yield here
