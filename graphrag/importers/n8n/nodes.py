"""Reads the nodes of an n8n workflow."""

from __future__ import annotations

import re
from typing import Any

from graphrag.importers.json_values import (
    Json,
    as_dict,
    as_extent,
    as_id,
    as_list,
    as_number,
    as_text,
    rest,
    without_empty,
)
from graphrag.importers.n8n import node_types
from graphrag.importers.readable_keys import clean
from graphrag.importers.type_facts import NOTE_FACTS
from graphrag.importers.workflow_draft import NOTE_TYPE, DraftNode, WorkflowDraft

_RETRIES = ("retryOnFail", "maxTries", "waitBetweenTries")
OPTIONS = ("onError", *_RETRIES, "executeOnce", "alwaysOutputData", "continueOnFail")
_FRAME = (
    "id",
    "name",
    "type",
    "typeVersion",
    "position",
    "parameters",
    "credentials",
    "disabled",
    "notes",
)
_READ = frozenset({*_FRAME, *OPTIONS})
CODE_FIELDS = {"jsCode": "javascript", "functionCode": "javascript", "pythonCode": "python"}
_BUILT_IN_NAMES = frozenset({"starter", "return", "html", "entryType", NOTE_TYPE, "group"})


def read_nodes(draft: WorkflowDraft, listed: list[Any]) -> None:
    """Adds every readable node to the draft; others are counted in its tally."""
    for place, item in enumerate(listed, start=1):
        raw = as_dict(item)
        if raw is None or not (
            as_text(raw.get("name")) or as_text(raw.get("type")) or as_id(raw.get("id"))
        ):
            draft.tally.drop("node", "it has no name, no type and no id", f"number {place}")
            continue
        draft.nodes.append(_read_node(draft, raw, place))
    _report_duplicates(draft)


def _read_node(draft: WorkflowDraft, raw: Json, place: int) -> DraftNode:
    foreign_type = as_text(raw.get("type"))
    given = as_text(raw.get("name"))
    name = given or node_types.short_type(foreign_type or "") or f"node {place}"
    if given is None:
        draft.tally.repair("node", "no name; named after its type or place", name)
    if foreign_type is None:
        draft.tally.repair("node", "no type; it is called unknown", name)
    origin = without_empty(
        format="n8n", id=as_id(raw.get("id")), name=name, fields=rest(raw, _READ)
    )
    version = as_number(raw.get("typeVersion"))
    node = DraftNode(
        name=name,
        type=_type_name(foreign_type),
        origin=origin,
        type_version=1 if version is None else version,
        raw=raw,
    )
    _place(draft, node, raw.get("position"))
    parameters = as_dict(raw.get("parameters"))
    if parameters is None:
        parameters = {}
        if raw.get("parameters"):
            draft.tally.drop("parameter", "the parameters are not an object", name)
    if foreign_type == node_types.STICKY:
        _fill_note(draft, node, parameters, raw)
    else:
        _fill_step(draft, node, parameters, raw)
    return node


def _type_name(foreign: str | None) -> str:
    name = clean(foreign or "", limit=120)
    if not name:
        return "n8n.unknown"
    return f"n8n.{name}" if name in _BUILT_IN_NAMES else name


def _place(draft: WorkflowDraft, node: DraftNode, position: Any) -> None:
    pair = as_list(position)
    if pair is None and (point := as_dict(position)) is not None:
        pair = [point.get("x"), point.get("y")]
    x, y = (
        (as_number(pair[0]), as_number(pair[1]))
        if pair is not None and len(pair) >= 2
        else (None, None)
    )
    if x is None or y is None:
        draft.tally.repair("position", "it could not be read; set to 0, 0", node.name)
    else:
        node.x = x
        node.y = y


def _fill_note(draft: WorkflowDraft, node: DraftNode, parameters: Json, raw: Json) -> None:
    node.type = NOTE_TYPE
    node.width = as_extent(parameters.get("width"), 240)
    node.height = as_extent(parameters.get("height"), 160)
    content = parameters.get("content")
    text = content if isinstance(content, str) else ""
    others = rest(parameters, frozenset({"content", "width", "height"}))
    node.name = heading_of(text) or node.name
    node.data = {
        "name": node.name,
        "text": text,
        **without_empty(parameters=others, notes=as_text(raw.get("notes"))),
    }
    draft.types.setdefault(NOTE_TYPE, NOTE_FACTS)


def heading_of(text: str) -> str:
    """Returns the first heading or line of a note's Markdown, without markup."""
    for line in text[:4000].splitlines():
        line = line[:400]
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", line)
        words = re.sub(r"^[\s#>*\-+]+|[*_`~]{1,3}", "", words).strip()
        if any(c.isalnum() for c in words):
            return clean(words, limit=80)
    return ""


def _fill_step(draft: WorkflowDraft, node: DraftNode, parameters: Json, raw: Json) -> None:
    short = node_types.short_type(node.type)
    options = {option: raw[option] for option in OPTIONS if raw.get(option) not in (None, False)}
    subnode = node_types.subnode_kind(node.type)
    node.width, node.height = (
        (80, 80) if subnode else (240, 100) if short == "agent" else (100, 100)
    )
    left, code, language = _take_code(parameters)
    node.process = code
    names = node_types.output_names(
        node.type,
        node.type_version,
        parameters,
        error_output=raw.get("onError") == "continueErrorOutput",
    )
    node.data = {
        "name": node.name,
        "parameters": left,
        **without_empty(
            notes=as_text(raw.get("notes")),
            disabled=True if raw.get("disabled") is True else None,
            credentials=_credential_names(raw.get("credentials")),
            options=options,
            language=language,
        ),
    }
    node_types.add_usual_ports(node, names)
    if node.type not in draft.types:
        draft.types[node.type] = node_types.n8n_facts(node.type)


def _take_code(parameters: Json) -> tuple[Json, str | None, str | None]:
    """Returns the parameters without the code, the code, and its language."""
    fields = [f for f in CODE_FIELDS if as_text(parameters.get(f))]
    if not fields:
        return parameters, None, None
    python = "python" in str(parameters.get("language", "")).lower()
    field = "pythonCode" if python and "pythonCode" in fields else fields[0]
    return rest(parameters, frozenset({field})), str(parameters[field]), CODE_FIELDS[field]


def _credential_names(raw: Any) -> Json:
    """Returns the names of credentials by type. Old exports have only the name."""
    names: Json = {}
    for kind, value in (as_dict(raw) or {}).items():
        named = (as_dict(value) or {}).get("name") if not isinstance(value, str) else value
        names[kind] = as_text(named) or ""
    return names


def _report_duplicates(draft: WorkflowDraft) -> None:
    names: dict[str, DraftNode] = {}
    ids: set[str] = set()
    for node in draft.nodes:
        name = node.origin.get("name")
        foreign_id = node.origin.get("id")
        if name is not None and names.setdefault(name, node) is not node:
            draft.tally.repair(
                "node",
                "another has the same name; connections go to the first that is no note",
                name,
            )
        if foreign_id is not None:
            if foreign_id in ids:
                draft.tally.repair(
                    "node", "another has the same id; it is identified by its name", node.name
                )
            ids.add(foreign_id)
