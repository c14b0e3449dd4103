"""Writes the changes of a graph into the n8n workflow that it was imported from, or into an empty
one.

Unchanged parts stay as they were. n8n refers to nodes by name, so names are made unique.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Set
from typing import Any

from datasources.types import Graph, Node
from graphrag.importers.json_values import Json, as_dict, as_id, as_list, set_or_remove
from graphrag.importers.n8n.connections import ConnectionEnds, slots
from graphrag.importers.n8n.node_types import STICKY, is_n8n_type
from graphrag.importers.n8n.nodes import CODE_FIELDS, OPTIONS
from graphrag.importers.readable_keys import KeyMaker
from graphrag.importers.report import Tally
from graphrag.importers.workflow_draft import NOTE_TYPE
from graphrag.importers.workflow_format import Changed, ChangedNode, EdgeEnds, FileWriter
from tools.checks.checked_graph import data_of

_HANDLE = re.compile(r"([A-Za-z]\w*?)(?:-(\d{1,3}))?$")
_WRITTEN_FIELDS = frozenset(
    {"name", "parameters", "notes", "disabled", "credentials", "options", "text", "language"}
)
_CODE_OF = {"code": "jsCode", "function": "functionCode", "functionItem": "functionCode"}


def patch_workflow(document: Json, changed: Changed, tally: Tally) -> dict[str, Json]:
    """Patches the file in place and returns its node entries by key.

    Changes that n8n cannot express are counted.
    """
    if document.get("name") and changed.graph.name != changed.before.name:
        document["name"] = changed.graph.name
    if changed.graph.description != changed.before.description:
        set_or_remove(document, "description", changed.graph.description)
    if len(sheets := {c.node.sheet for c in changed.nodes.values()}) > 1:
        tally.repair(
            "sheet",
            "an n8n workflow has one canvas; all nodes were put on it",
            count=len(sheets) - 1,
        )
    raws = _nodes(document, changed, tally)
    connections = as_dict(document.get("connections"))
    if connections is None:
        connections = document["connections"] = {}
    _cut(connections, changed)
    names = _rename(document, connections, raws, changed, tally)
    for ends in changed.added:
        _connect(connections, names, ends, tally)
    return raws


def _empty(graph: Graph) -> Json:
    return {
        "name": graph.name,
        "nodes": [],
        "connections": {},
        "settings": {"executionOrder": "v1"},
    }


def _finish(document: Json, is_part: bool) -> Json:
    """Writes credentials in n8n's form, with null for an unknown id. A part has only nodes and
    connections.
    """
    for node in map(as_dict, as_list(document.get("nodes")) or ()):
        credentials = as_dict((node or {}).get("credentials")) or {}
        named = {
            kind: {"id": None, "name": credential} if isinstance(credential, str) else credential
            for kind, credential in credentials.items()
        }
        if node and named:
            node["credentials"] = named
    return {name: document[name] for name in ("nodes", "connections")} if is_part else document


def _new_id(node: Node) -> str:
    """Returns the id of a node that n8n does not know yet. Deterministic."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{node.graph_key}\n{node.key}"))


WORKFLOW_WRITER = FileWriter(
    has_type=is_n8n_type, empty=_empty, patch=patch_workflow, finish=_finish, new_id=_new_id
)


def _nodes(document: Json, changed: Changed, tally: Tally) -> dict[str, Json]:
    """Patches, removes and adds node entries. Returns the entries by the key of their node."""
    listed = as_list(document.get("nodes"))
    if listed is None:
        listed = document["nodes"] = []
    gone = {id(draft.raw) for draft in changed.gone}
    listed[:] = [raw for raw in listed if id(raw) not in gone]
    used_ids = {as_id(raw.get("id")) for raw in map(as_dict, listed) if raw is not None}
    raws: dict[str, Json] = {}
    for key, changed_node in changed.nodes.items():
        if changed_node.draft is None:
            raws[key] = _new(changed_node.node, used_ids)
            used_ids.add(raws[key]["id"])
            listed.append(raws[key])
        else:
            raws[key] = changed_node.draft.raw
        _patch(raws[key], changed_node, tally)
    return raws


def _new(node: Node, used_ids: Set[str | None]) -> Json:
    """Returns the entry of a node that the file lacks. A copied node does not get the id of its
    original.
    """
    origin = as_dict((node.model_extra or {}).get("origin")) or {}
    is_ours = origin.get("format") == "n8n"
    foreign = re.sub(r"^n8n\.(?=\w+$)", "", node.type)
    return {
        "parameters": {},
        **((as_dict(origin.get("fields")) or {}) if is_ours else {}),
        "id": origin["id"]
        if is_ours and origin.get("id") not in {*used_ids, None}
        else _new_id(node),
        "name": origin.get("name") if is_ours else None,
        "type": STICKY if node.type == NOTE_TYPE else foreign,
    }


def _patch(raw: Json, changed_node: ChangedNode, tally: Tally) -> None:
    node = changed_node.node
    old = changed_node.before
    now = data_of(node)
    was = data_of(old)
    if old is None or (node.pos_x, node.pos_y) != (old.pos_x, old.pos_y):
        raw["position"] = [node.pos_x, node.pos_y]
    if old is None or node.type_version != old.type_version:
        raw["typeVersion"] = node.type_version
    if node.type == NOTE_TYPE:
        _patch_note(raw, changed_node)
    elif old is None or (now.get("parameters"), node.process) != (
        was.get("parameters"),
        old.process,
    ):
        raw["parameters"] = _parameters(raw, changed_node, tally)
    if now.get("notes") != was.get("notes"):
        set_or_remove(raw, "notes", now.get("notes"))
    if now.get("disabled") != was.get("disabled"):
        set_or_remove(raw, "disabled", True if now.get("disabled") else None)
    if now.get("credentials") != was.get("credentials"):
        set_or_remove(
            raw, "credentials", _credentials(raw.get("credentials"), now.get("credentials"))
        )
    options = as_dict(now.get("options")) or {}
    before = as_dict(was.get("options")) or {}
    for option in OPTIONS:
        if options.get(option) != before.get(option):
            set_or_remove(raw, option, options.get(option))
    changed_node.count_unwritten(_WRITTEN_FIELDS, tally)


def _patch_note(raw: Json, changed_node: ChangedNode) -> None:
    node = changed_node.node
    old = changed_node.before
    now = data_of(node)
    was = data_of(old)
    parameters = as_dict(raw.get("parameters")) or {}
    if old is None or now.get("parameters") != was.get("parameters"):
        kept = {
            name: parameters[name] for name in ("content", "width", "height") if name in parameters
        }
        parameters = {**(as_dict(now.get("parameters")) or {}), **kept}
    if old is None or now.get("text") != was.get("text"):
        parameters["content"] = str(now.get("text") or "")
    for name in ("width", "height"):
        if old is None or getattr(node.size, name) != getattr(old.size, name):
            parameters[name] = getattr(node.size, name)
    raw["parameters"] = parameters


def _parameters(raw: Json, changed_node: ChangedNode, tally: Tally) -> Json:
    """Returns the parameters with the code in the field that it was read from."""
    data = data_of(changed_node.node)
    old_parameters = as_dict(raw.get("parameters")) or {}
    parameters = dict(as_dict(data.get("parameters")) or {})
    if changed_node.node.process is None:
        return parameters
    old_code = changed_node.before.process if changed_node.before is not None else None
    fields = [
        name
        for name in CODE_FIELDS
        if old_code is not None and old_parameters.get(name) == old_code
    ]
    short = changed_node.node.type.rsplit(".", 1)[-1]
    field = next(iter(fields), _CODE_OF.get(short))
    if field is None:
        tally.drop("field", "nodes of its type hold no code in n8n", f"{data.get('name')}: process")
    else:
        is_python = not fields and short == "code" and data.get("language") == "python"
        parameters["pythonCode" if is_python else field] = changed_node.node.process
    return parameters


def _credentials(stored: Any, names: Any) -> Json:
    """Returns credentials by kind: the stored one if its name is the same, otherwise one without
    id.
    """
    credentials: Json = {}
    for kind, name in (as_dict(names) or {}).items():
        credential = as_dict((as_dict(stored) or {}).get(kind)) or {}
        credentials[kind] = (
            credential if credential.get("name") == name else {"id": None, "name": name}
        )
    return credentials


def _cut(connections: Json, changed: Changed) -> None:
    """Removes deleted connections, and all connections of deleted nodes."""
    ends = ConnectionEnds(changed.draft)
    gone = set(changed.gone)
    for slot in list(slots(changed.draft, connections)):
        source = ends.find(slot.source)
        target = ends.find(str(slot.target["node"]))
        if source is None or target is None:
            continue
        joined = (
            changed.keys[source],
            slot.output_port.id,
            changed.keys[target],
            slot.input_port.id,
        )
        if joined in changed.removed or source in gone or target in gone:
            place = next(n for n, item in enumerate(slot.holder) if item is slot.target)
            is_list = slot.holder is connections[slot.source][slot.kind]
            if is_list and not all(isinstance(item, dict) for item in slot.holder):
                # The target stood in place of an output's list; later outputs keep their index.
                slot.holder[place] = None
            else:
                del slot.holder[place]
    for draft in gone:
        if ends.find(draft.origin.get("name", draft.name)) is draft:
            connections.pop(draft.origin.get("name", draft.name), None)


def _rename(
    document: Json, connections: Json, raws: Mapping[str, Json], changed: Changed, tally: Tally
) -> dict[str, str]:
    """Gives nodes their current names, each unique; returns the names by key."""
    ends = ConnectionEnds(changed.draft)
    renamed = dict[str, str]()
    joined = {key for source, _, target, _ in changed.added for key in (source, target)}
    names: dict[str, str] = {}
    unnamed: list[str] = []
    for key, raw in raws.items():
        changed_node = changed.nodes[key]
        is_same = changed_node.draft is not None and data_of(changed_node.node).get(
            "name"
        ) == data_of(changed_node.before).get("name")
        if is_same and changed_node.draft and key in joined:
            # A new connection must not refer to another node of the same name.
            is_same = (
                ends.find(changed_node.draft.origin.get("name", changed_node.draft.name))
                is changed_node.draft
            )
        if is_same and isinstance(raw.get("name"), str):
            names[key] = raw["name"]
        elif is_same and changed_node.draft is not None:
            names[key] = changed_node.draft.origin.get("name", changed_node.draft.name)
        else:
            unnamed.append(key)
    maker = KeyMaker(names.values())
    for key in unnamed:
        changed_node = changed.nodes[key]
        raw = raws[key]
        old = (
            str(changed_node.draft.origin.get("name", changed_node.draft.name))
            if changed_node.draft is not None
            else None
        )
        wanted = (
            raw.get("name")
            if changed_node.draft is None and changed_node.node.type == NOTE_TYPE
            else None
        )
        wanted = str(wanted or data_of(changed_node.node).get("name") or key)
        names[key] = raw["name"] = maker.make(wanted)
        if names[key] != wanted:
            tally.repair("node", "another has the same name; it is numbered", names[key])
        if old is not None and ends.find(old) is changed_node.draft:
            renamed[old] = names[key]
        if as_id(raw.get("id")) is None:  # its only identification was the old name
            raw["id"] = _new_id(changed_node.node)
    if renamed:
        _follow(document, connections, renamed)
    return names


def _follow(document: Json, connections: Json, renamed: Mapping[str, str]) -> None:
    """Updates connections and pinned data to new node names."""
    for held in (connections, as_dict(document.get("pinData")) or {}):
        entries = [(renamed.get(name, name), value) for name, value in held.items()]
        held.clear()
        held.update(entries)
    stack: list[Any] = list(connections.values())
    while stack:
        item = stack.pop()
        fields = as_dict(item)
        if fields is not None and isinstance(fields.get("node"), str):
            fields["node"] = renamed.get(fields["node"], fields["node"])
        elif fields is not None:
            stack += fields.values()
        else:
            stack += as_list(item) or ()


def _connect(connections: Json, names: Mapping[str, str], ends: EdgeEnds, tally: Tally) -> None:
    source, output, target, inlet = ends
    if source not in names or target not in names:
        tally.drop("edge", "one of its ends is not in the file", f"{source} → {target}")
        return
    (kind, place), (into, index) = _port(output), _port(inlet)
    kinds = connections.setdefault(names[source], {})
    outputs = as_list(kinds.get(kind)) or []
    if outputs and all(isinstance(item, dict) for item in outputs):
        outputs = [outputs]
    outputs += [[] for _ in range(place + 1 - len(outputs))]
    single = as_dict(outputs[place])
    targets = as_list(outputs[place]) or [] if single is None else [single]
    targets.append({"node": names[target], "type": into, "index": index})
    outputs[place], kinds[kind] = targets, outputs


def _port(handle: str) -> tuple[str, int]:
    """Returns the connection kind and number of a handle, whose id a client may choose freely."""
    if handle.isdecimal() and len(handle) <= 3:
        return "main", int(handle)
    match = _HANDLE.fullmatch(handle)
    return (match[1], int(match[2] or 0)) if match else (handle, 0)
