"""Node types that an action creates or changes: what is wrong with them and which
handles they give.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from datasources.builtin_types import BUILTIN_TYPES
from datasources.types import HandleGroup, HandlePoint, Handles, Side
from tools.base import Problem
from tools.proposal_parts import ConfigureNodeType, ProposedHandles
from tools.proposals import ConfigureNodeTypeAction, SingleAction
from tools.write_tools.graph_reads import Snapshot

DEFAULT_HANDLES: Handles = {
    "L": HandleGroup(position="separate", point=(HandlePoint(id="0", type="in", accept="any"),)),
    "R": HandleGroup(position="separate", point=(HandlePoint(id="0", type="out", accept="any"),)),
}
"""What a new type has when nothing is said: one way in on the left, one way out on the right."""


def handles_from(groups: Mapping[Side, ProposedHandles] | None) -> Handles | None:
    """Return proposed handles in stored form."""
    if groups is None:
        return None
    return {
        side: HandleGroup.model_validate(group.model_dump(by_alias=True, exclude_none=True))
        for side, group in groups.items()
    }


def handles_of_types(
    singles: Sequence[tuple[str, SingleAction]], snapshot: Snapshot, problems: list[Problem]
) -> dict[str, Handles]:
    """Return the handles of the types that an action configures, by name; one named twice
    is a problem.
    """
    found: dict[str, Handles] = {}
    for where, single in singles:
        if isinstance(single, ConfigureNodeTypeAction):
            name = single.payload.type_key
            own = handles_from(single.payload.handles)
            if name in found:
                what = "this proposal configures the type twice"
                problems.append(Problem(where=at(where, "typeKey"), what=what))
            old = snapshot.type_of(name)
            found[name] = own if own is not None else old.node.handles if old else DEFAULT_HANDLES
    return found


def problems_of_type(
    payload: ConfigureNodeType, where: str, snapshot: Snapshot
) -> Iterator[Problem]:
    """Yield what is wrong with a configured type."""
    old = snapshot.type_of(payload.type_key)
    name = payload.type_key[:80]
    key = at(where, "typeKey")
    what = ""
    if payload.mode == "create":
        if old is not None:
            what = f"the type {name!r} exists already; use mode update or another name"
        elif len(payload.type_key) > 200 or not payload.type_key.isprintable():
            what = "a type's name has at most 200 characters and none that cannot be seen"
        if payload.display_name is None:
            yield Problem(where=at(where, "displayName"), what="a new type needs one")
    elif old is None:
        near = nearest(payload.type_key, list(snapshot.types))
        hint = f"; did you mean {', '.join(near)}?" if near else "; use mode create"
        what = f"no node type {name!r}{hint}"
    elif BUILTIN_TYPES.get(old.type) is old:
        what = f"{name!r} is built in and cannot be changed; create a type of your own"
    elif old.workspace != snapshot.graph.workspace:
        what = f"{name!r} belongs to workspace {old.workspace!r}; create a type of your own instead"
    if what:
        yield Problem(where=key, what=what)
    given = payload.model_fields_set - {"mode", "type_key"}
    if payload.mode == "update" and not any(getattr(payload, field) is not None for field in given):
        yield Problem(where=at(where, "mode"), what="nothing to change is given")
    yield from repeated_handles(payload.handles, at(where, "handles"))


def repeated_handles(
    groups: Mapping[Side, ProposedHandles] | Handles | None, where: str
) -> Iterator[Problem]:
    """Yield the handles whose id another of their direction has; `where` is the field
    of the groups.
    """
    seen: set[tuple[str, str]] = set()
    for side, group in (groups or {}).items():
        for number, point in enumerate(group.point):
            if (point.type, point.id) in seen:
                what = f"another {point.type} handle has the id {point.id[:40]!r}"
                yield Problem(where=f"{where}.{side}.point.{number}.id", what=what)
            seen.add((point.type, point.id))


def at(where: str, name: str) -> str:
    """Return the place of a field inside a part of an action."""
    return f"{where}.{name}" if where else name


def nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """Return the names most alike, best first."""
    known = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(wanted[:200].casefold(), list(known), n=3, cutoff=0.5)
    return [known[name] for name in found]
