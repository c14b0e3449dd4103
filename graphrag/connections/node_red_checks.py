"""Checks flows before they are deployed to a Node-RED server. Pure.

Node-RED accepts almost anything: a node of a type that it lacks stops all flows at the next start,
wires to nowhere are stored in silence. So a change is checked here, not there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphrag.connections.document_patch import is_same
from graphrag.connections.editor import PushRemark
from graphrag.importers.json_values import Json, as_dict, as_list, as_text

STRUCTURE = frozenset({"tab", "subflow", "group"})
"""Types of entries that no set of nodes brings."""
PLACES = ("x", "y", "w", "h")
MAX_REMARKS = 20


def checked_flows(
    before: Sequence[Json], after: Sequence[Json], types: Collection[str] | None
) -> tuple[tuple[PushRemark, ...], tuple[PushRemark, ...]]:
    """Returns the problems of flows that are to be deployed, and the effects of deploying them.

    Only what differs from `before` counts. `types` are those that the server has, None where they
    are not known.
    """
    old = {as_text(entry.get("id")): entry for entry in before}
    changed = [entry for entry in after if not is_same(entry, old.get(as_text(entry.get("id"))))]
    problems = [
        *_unknown_types(changed, after, types),
        *_repeated_ids(after, before),
        *_dangling_wires(changed, after),
    ]
    return tuple(problems[:MAX_REMARKS]), tuple(_effects(changed, old, before, after))


def deleted_nodes(before: Sequence[Json], after: Sequence[Json]) -> list[Json]:
    """Returns the nodes that flows have no more, without tabs, subflows and groups."""
    kept = {as_text(entry.get("id")) for entry in after}
    return [
        entry
        for entry in before
        if as_text(entry.get("id")) not in kept and entry.get("type") not in STRUCTURE
    ]


def _unknown_types(
    changed: Sequence[Json], after: Sequence[Json], types: Collection[str] | None
) -> list[PushRemark]:
    if types is None:
        return []
    subflows = {f"subflow:{entry.get('id')}" for entry in after if entry.get("type") == "subflow"}
    known = {*types, *subflows, *STRUCTURE}
    unknown = {as_text(entry.get("type")) or "" for entry in changed} - known
    return [PushRemark(code="push_type_missing", facts={"type": name}) for name in sorted(unknown)]


def _repeated_ids(after: Sequence[Json], before: Sequence[Json]) -> list[PushRemark]:
    def repeated(flows: Sequence[Json]) -> set[str]:
        ids = [as_text(entry.get("id")) or "" for entry in flows]
        return {one for one in ids if ids.count(one) > 1} if len(set(ids)) < len(ids) else set()

    new = repeated(after) - repeated(before)
    return [PushRemark(code="push_repeated_id", facts={"id": one}) for one in sorted(new)]


def _dangling_wires(changed: Sequence[Json], after: Sequence[Json]) -> list[PushRemark]:
    ids = {as_text(entry.get("id")) for entry in after}
    remarks: list[PushRemark] = []
    for entry in changed:
        targets = {
            target
            for output in as_list(entry.get("wires")) or ()
            for target in map(as_text, as_list(output) or ())
            if target
        }
        if targets - ids:
            remarks.append(PushRemark(code="push_dangling", facts={"node": _name(entry)}))
    return remarks


def _effects(
    changed: Sequence[Json],
    old: dict[str | None, Json],
    before: Sequence[Json],
    after: Sequence[Json],
) -> list[PushRemark]:
    """Returns what a deployment of changed nodes starts anew and ends."""
    started = [
        _name(entry)
        for entry in changed
        if entry.get("type") not in STRUCTURE
        and not is_same(_without_place(entry), _without_place(old.get(as_text(entry.get("id")))))
    ]
    effects: list[PushRemark] = []
    if started:
        effects.append(PushRemark(code="push_restarts", facts=_listed(started)))
    gone = [_name(entry) for entry in deleted_nodes(before, after)]
    if gone:
        effects.append(PushRemark(code="push_ends", facts=_listed(gone)))
    return effects


def _without_place(entry: Json | None) -> Json:
    return {name: value for name, value in (as_dict(entry) or {}).items() if name not in PLACES}


def _listed(names: Sequence[str]) -> dict[str, str]:
    more = f" (+{len(names) - MAX_REMARKS})" if len(names) > MAX_REMARKS else ""
    return {"nodes": ", ".join(names[:MAX_REMARKS]) + more}


def _name(entry: Json) -> str:
    return as_text(entry.get("name")) or as_text(entry.get("label")) or str(entry.get("type"))
