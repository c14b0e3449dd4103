"""Node types that an action creates or changes: what is wrong with them and which handles they give."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from datasources.builtin_types import BUILTIN_TYPES
from datasources.types import HandleGroup, HandlePoint, Handles, Side
from tools.proposal_parts import ConfigureNodeType, CreateNode, ProposedHandles
from tools.proposals import ConfigureNodeTypeAction, SingleAction
from tools.write_tools.graph_reads import Snapshot

DEFAULT_HANDLES: Handles = {
    "L": HandleGroup(position="separate", point=(HandlePoint(id="0", type="in", accept="any"),)),
    "R": HandleGroup(position="separate", point=(HandlePoint(id="0", type="out", accept="any"),)),
}
"""What a new type has when nothing is said: one way in on the left, one way out on the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewType:
    """A type as an action leaves it, as far as edges care."""

    name: str
    handles: Handles


def handles_from(groups: Mapping[Side, ProposedHandles] | None) -> Handles | None:
    """Return proposed handles in stored form."""
    if groups is None:
        return None
    return {
        side: HandleGroup.model_validate(group.model_dump(by_alias=True, exclude_none=True))
        for side, group in groups.items()
    }


def new_types(
    singles: Sequence[tuple[str, SingleAction]], snapshot: Snapshot
) -> tuple[dict[str, NewType], list[tuple[str, str, str]]]:
    """Return the types an action configures, by name, and as (where, field, what) those named twice."""
    found: dict[str, NewType] = {}
    twice: list[tuple[str, str, str]] = []
    for where, single in singles:
        if not isinstance(single, ConfigureNodeTypeAction):
            continue
        payload = single.payload
        if payload.type_key in found:
            twice.append((where, "typeKey", "this proposal configures the type twice"))
        old = snapshot.type_of(payload.type_key)
        fallback = old.node.handles if old else DEFAULT_HANDLES
        handles = handles_from(payload.handles)
        found[payload.type_key] = NewType(
            name=payload.type_key, handles=fallback if handles is None else handles
        )
    return found, twice


def fault_of_type(payload: ConfigureNodeType, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a configured type, as (field, what)."""
    old = snapshot.type_of(payload.type_key)
    name = payload.type_key[:80]
    if payload.mode == "create":
        if old is not None:
            yield "typeKey", f"the type {name!r} exists already; use mode update or another name"
        if len(payload.type_key) > 200 or not payload.type_key.isprintable():
            yield "typeKey", "a type's name has at most 200 characters and none that cannot be seen"
        if payload.display_name is None:
            yield "displayName", "a new type needs one"
    elif old is None:
        near = nearest(payload.type_key, list(snapshot.types))
        hint = f"; did you mean {', '.join(near)}?" if near else "; use mode create"
        yield "typeKey", f"no node type {name!r}{hint}"
    elif BUILTIN_TYPES.get(old.type) is old:
        yield "typeKey", f"{name!r} is built in and cannot be changed; create a type of your own"
    elif old.workspace != snapshot.graph.workspace:
        what = f"{name!r} belongs to workspace {old.workspace!r}; create a type of your own instead"
        yield "typeKey", what
    given = payload.model_fields_set - {"mode", "type_key"}
    if payload.mode == "update" and not any(getattr(payload, field) is not None for field in given):
        yield "mode", "nothing to change is given"
    yield from repeated_handles(payload)


def repeated_handles(payload: ConfigureNodeType | CreateNode) -> Iterator[tuple[str, str]]:
    """Yield the handles whose id another of their direction has, as (field, what)."""
    seen: set[tuple[str, str]] = set()
    for side, group in (payload.handles or {}).items():
        for number, point in enumerate(group.point):
            if (point.type, point.id) in seen:
                what = f"another {point.type} handle has the id {point.id[:40]!r}"
                yield f"handles.{side}.point.{number}.id", what
            seen.add((point.type, point.id))


def nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """Return the names most alike, best first."""
    known = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(wanted[:200].casefold(), list(known), n=3, cutoff=0.5)
    return [known[name] for name in found]
