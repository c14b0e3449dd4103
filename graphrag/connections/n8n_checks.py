"""Checks a workflow before it is written to an n8n server. Pure.

n8n accepts nonsense for a workflow that is not published, and may store what it refuses for one
that is. So a change is checked here. Which types a server has is not in its public API: types and
versions that its workflows use are known, and the types of n8n's own packages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from graphrag.connections.document_patch import is_same
from graphrag.connections.editor import PushRemark
from graphrag.importers.json_values import Json, as_dict, as_list, as_number, as_text
from graphrag.importers.type_facts import known_type

PACKAGE = "graphrag.importers.n8n"
MAX_REMARKS = 20
OWN_PACKAGES = ("n8n-nodes-base.", "@n8n/n8n-nodes-langchain.")

TypeVersions = Mapping[str, Collection[float]]
"""The versions of each type of node that is known to work on a server."""


def versions_in_use(workflows: Iterable[Json]) -> dict[str, set[float]]:
    """Returns the types and versions of the nodes of workflows."""
    versions: dict[str, set[float]] = {}
    for workflow in workflows:
        for node in _nodes(workflow):
            name = as_text(node.get("type"))
            if name:
                versions.setdefault(name, set()).add(as_number(node.get("typeVersion")) or 1)
    return versions


def checked_workflow(
    before: Json, after: Json, in_use: TypeVersions, node_fields: Collection[str]
) -> tuple[tuple[PushRemark, ...], tuple[PushRemark, ...], tuple[PushRemark, ...]]:
    """Returns the problems, warnings and effects of writing a workflow.

    `in_use`: types on the server, `node_fields`: those that its API accepts in a node.
    """
    old = {as_text(node.get("id")): node for node in _nodes(before)}
    changed = [
        node for node in _nodes(after) if not is_same(node, old.get(as_text(node.get("id"))))
    ]
    problems: list[PushRemark] = []
    warnings: list[PushRemark] = []
    for node in changed:
        was = old.get(as_text(node.get("id"))) or {}
        is_new_type = [was.get(name) for name in ("type", "typeVersion")] != [
            node.get(name) for name in ("type", "typeVersion")
        ]
        if is_new_type:
            known, unsure = _type_remarks(node, in_use)
            problems += known
            warnings += unsure
    problems += _refused_fields(_nodes(after), node_fields)
    problems += _repeated(after, before)
    problems += _dangling(before, after)
    effects = _effects(changed, old, before, after)
    return tuple(problems[:MAX_REMARKS]), tuple(warnings[:MAX_REMARKS]), tuple(effects)


def _type_remarks(node: Json, in_use: TypeVersions) -> tuple[list[PushRemark], list[PushRemark]]:
    """Returns what is wrong with the type of a node, and what cannot be checked."""
    name = as_text(node.get("type")) or ""
    version = as_number(node.get("typeVersion")) or 1
    facts = {"node": _name(node), "type": name, "version": f"{version:g}"}
    seen = in_use.get(name)
    if seen is None and not _is_own(name):
        return [PushRemark(code="push_type_unknown", facts=facts)], []
    if seen is not None and version > max(seen):
        return [PushRemark(code="push_version_unknown", facts=facts)], []
    if seen is None or version not in seen:
        return [], [PushRemark(code="push_version_unchecked", facts=facts)]
    return [], []


def _is_own(name: str) -> bool:
    short = name.rpartition(".")[2]
    return name.startswith(OWN_PACKAGES) and known_type(PACKAGE, short) is not None


def _refused_fields(nodes: Sequence[Json], accepted: Collection[str]) -> list[PushRemark]:
    """Returns fields of nodes that would be lost: the API refuses nodes with them."""
    return [
        PushRemark(code="push_field_refused", facts={"node": _name(node), "field": field})
        for node in nodes
        for field in sorted(node.keys() - set(accepted))
    ]


def _repeated(after: Json, before: Json) -> list[PushRemark]:
    remarks: list[PushRemark] = []
    for field, code in (("name", "push_repeated_name"), ("id", "push_repeated_id")):
        was, now = (
            Counter(value for node in _nodes(each) if (value := as_text(node.get(field))))
            for each in (before, after)
        )
        remarks += [
            PushRemark(code=code, facts={field: value})
            for value, count in now.items()
            if count > max(was[value], 1)
        ]
    return remarks


def _dangling(before: Json, after: Json) -> list[PushRemark]:
    """Returns connections from or to nodes that are not there, unless they were there before."""
    new = _ends_without_node(after) - _ends_without_node(before)
    return [PushRemark(code="push_dangling", facts={"node": name}) for name in sorted(new)]


def _ends_without_node(workflow: Json) -> set[str]:
    names = {as_text(node.get("name")) for node in _nodes(workflow)}
    connections = as_dict(workflow.get("connections")) or {}
    ends = set(connections)
    stack: list[object] = list(connections.values())
    while stack:
        item = stack.pop()
        fields = as_dict(item)
        if fields is not None and (name := as_text(fields.get("node"))) is not None:
            ends.add(name)
        else:
            stack += (fields or {}).values() or as_list(item) or ()
    return ends - names


def _effects(
    changed: Sequence[Json], old: Mapping[str | None, Json], before: Json, after: Json
) -> list[PushRemark]:
    effects: list[PushRemark] = []
    for node in changed:
        was, now = _address(old.get(as_text(node.get("id")))), _address(node)
        if was != now and was:
            facts = {"node": _name(node), "before": was, "after": now or "?"}
            effects.append(PushRemark(code="push_address_changes", facts=facts))
    kept = {as_text(node.get("id")) for node in _nodes(after)}
    for node in _nodes(before):
        if as_text(node.get("id")) not in kept and node.get("credentials"):
            effects.append(PushRemark(code="push_deletes_credentials", facts={"node": _name(node)}))
    live = as_text(before.get("activeVersionId"))
    effects.append(PushRemark(code="push_draft_of_live" if live else "push_draft"))
    return effects[-MAX_REMARKS:]


def _address(node: Json | None) -> str:
    """Returns the address under which a node is called, "" where it has none."""
    fields = as_dict((node or {}).get("parameters")) or {}
    is_called = "webhook" in (as_text((node or {}).get("type")) or "").lower()
    return (as_text(fields.get("path")) or "") if is_called else ""


def _nodes(workflow: Json) -> list[Json]:
    items = map(as_dict, as_list(workflow.get("nodes")) or ())
    return [node for node in items if node is not None]


def _name(node: Json) -> str:
    return as_text(node.get("name")) or as_text(node.get("type")) or "?"
