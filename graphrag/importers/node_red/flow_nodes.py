"""Reads the nodes of a Node-RED flow: steps, notes, groups and shared settings."""

from __future__ import annotations

from collections.abc import Mapping

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
from graphrag.importers.readable_keys import clean
from graphrag.importers.type_facts import (
    GROUP_FACTS,
    NOTE_FACTS,
    TypeFacts,
    facts,
    humanise,
    known_type,
)
from graphrag.importers.workflow_draft import (
    GROUP_TYPE,
    MAIN_IN,
    NOTE_TYPE,
    DraftNode,
    Port,
    WorkflowDraft,
)

STEP_WIDTH, STEP_HEIGHT = 160, 40
JUNCTION_EXTENT = 20
END_EXTENT = 40  # of the ends of a subflow
CONFIG_SHEET = "config nodes"
MAX_OUTPUTS = 256

FRAME = frozenset({"id", "type", "z", "g", "x", "y", "wires", "name", "info", "d", "links"})
_LOOKS = frozenset({"l", "icon", "color", "outputs", "inputs", "outputLabels", "inputLabels"})
_SOURCES = frozenset(
    {
        "inject",
        "http in",
        "mqtt in",
        "link in",
        "catch",
        "status",
        "complete",
        "websocket in",
        "tcp in",
    }
    | {"udp in", "watch", "server-state-changed"}
)
CODE = {
    "function": ("func", "javascript"),
    "template": ("template", "mustache"),
    "ui_template": ("format", "html"),
    "ui-template": ("format", "html"),
}
_TAKEN_NAMES = frozenset({"starter", "return", "html", "entryType", NOTE_TYPE, GROUP_TYPE})


def start_node(draft: WorkflowDraft, raw: Json, sheet: str) -> DraftNode:
    """Returns a draft with name, type and origin."""
    foreign_type = clean(as_text(raw.get("type")) or "", limit=120)
    if not foreign_type:
        draft.tally.repair("node", "no type; it is called unknown", as_id(raw.get("id")) or "")
    type_name = foreign_type or "node-red.unknown"
    given = as_text(raw.get("name"))
    name = given or _stand_in_name(foreign_type, raw)
    foreign_id = as_id(raw.get("id"))
    # Without an id, the next import recognises the node by its name.
    origin = without_empty(format="node-red", id=foreign_id, name=given if foreign_id else name)
    if sheet != (as_id(raw.get("z")) or "") and as_id(raw.get("z")):
        origin["z"] = as_id(raw.get("z"))
    return DraftNode(
        name=name,
        type=f"node-red.{type_name}" if type_name in _TAKEN_NAMES else type_name,
        origin=origin,
        sheet=sheet,
        raw=raw,
    )


def _stand_in_name(foreign_type: str, raw: Json) -> str:
    """Returns the name shown for an unnamed node: its type with a distinguishing setting."""
    if foreign_type == "http in":
        return (
            " ".join(filter(None, (str(raw.get("method", "")).upper(), as_text(raw.get("url")))))[
                :80
            ]
            or "http in"
        )
    if foreign_type.startswith("subflow:"):
        return "subflow"
    rule = as_dict(next(iter(as_list(raw.get("rules")) or ()), None))
    if foreign_type == "change" and rule is not None and as_text(rule.get("p")):
        return f"{as_text(rule.get('t')) or 'change'} {rule['p']}"[:80]
    for field in ("topic", "url", "filename", "broker", "host", "field"):
        value = as_text(raw.get(field))
        if value is not None:
            return f"{foreign_type} {value}"[:80]
    return foreign_type or "node"


def fill_group(draft: WorkflowDraft, node: DraftNode, raw: Json) -> None:
    """Fills the draft of a group; its frame keeps its position."""
    node.type = GROUP_TYPE
    node.x, node.y = as_number(raw.get("x")) or 0, as_number(raw.get("y")) or 0
    node.width, node.height = as_extent(raw.get("w"), 200), as_extent(raw.get("h"), 100)
    others = rest(raw, FRAME | {"w", "h", "nodes"})
    node.data = {
        "name": node.name,
        **without_empty(notes=as_text(raw.get("info")), parameters=others),
    }
    draft.types.setdefault(GROUP_TYPE, GROUP_FACTS)


def fill_note(draft: WorkflowDraft, node: DraftNode, raw: Json) -> None:
    """Fills the draft of a comment: its title is the name, its text is the title and the
    description.
    """
    node.type = NOTE_TYPE
    node.width = STEP_WIDTH
    node.height = STEP_HEIGHT
    _place(draft, node, raw)
    title = as_text(raw.get("name")) or ""
    info = as_text(raw.get("info"))
    others = rest(raw, FRAME | _LOOKS)
    node.data = {
        "name": title or "comment",
        "text": "\n\n".join(filter(None, (title, info))),
        **without_empty(parameters=others),
    }
    _keep_looks(node, raw)
    draft.types.setdefault(NOTE_TYPE, NOTE_FACTS)
    for place, targets in enumerate(as_list(raw.get("wires")) or ()):
        if targets:
            node.take_out(Port(str(place), "R", order=place))


def fill_config(draft: WorkflowDraft, node: DraftNode, raw: Json) -> None:
    """Fills the draft of settings that other nodes share, without secrets."""
    node.width = STEP_WIDTH
    node.height = STEP_HEIGHT
    _fill_data(node, raw, rest(raw, FRAME | _LOOKS))
    draft.types.setdefault(node.type, red_facts(str(raw.get("type") or node.type), config=True))


def fill_step(
    draft: WorkflowDraft, node: DraftNode, raw: Json, subflows: Mapping[str, Json]
) -> None:
    """Fills the draft of a step: code, settings and a port for each output."""
    kind = as_text(raw.get("type")) or node.type
    node.width, node.height = (
        (JUNCTION_EXTENT, JUNCTION_EXTENT) if kind == "junction" else (STEP_WIDTH, STEP_HEIGHT)
    )
    _place(draft, node, raw)
    settings = rest(raw, FRAME | _LOOKS)
    language = None
    field, usual = CODE.get(kind, ("", ""))
    if field and (code := as_text(settings.get(field))) is not None:
        settings = rest(settings, frozenset({field}))
        node.process = code
        language = (as_text(raw.get("format")) or usual) if kind == "template" else usual
    _fill_data(node, raw, settings, language)
    definition = (
        subflows.get(kind.removeprefix("subflow:")) if kind.startswith("subflow:") else None
    )
    if definition is not None:
        name = as_text(definition.get("name")) or kind
        node.name = node.origin.get("name") or name
        node.data["name"] = node.name
        first = (as_text(definition.get("info")) or "").strip().split("\n", 1)[0][:200]
        description = first or "Runs a flow that is drawn on its own sheet."
        draft.types.setdefault(node.type, facts(f"Subflow: {name}", description, "subflow"))
    draft.types.setdefault(node.type, red_facts(kind))
    takes_input = (
        bool(as_list(definition.get("in"))) if definition is not None else kind not in _SOURCES
    )
    if takes_input:
        node.take_in(MAIN_IN)
    _add_outputs(node, raw)


def _fill_data(node: DraftNode, raw: Json, settings: Json, language: str | None = None) -> None:
    empty = [name for name, value in settings.items() if value == ""]
    if empty:
        node.origin["empty"] = empty
    settings = {name: value for name, value in settings.items() if value != ""}
    node.data = {
        "name": node.name,
        "parameters": settings,
        **without_empty(
            notes=as_text(raw.get("info")),
            disabled=True if raw.get("d") is True else None,
            language=language,
        ),
    }
    _keep_looks(node, raw)


def _keep_looks(node: DraftNode, raw: Json) -> None:
    looks = {name: raw[name] for name in sorted(_LOOKS) if name in raw}
    if looks:
        node.origin["fields"] = looks


def _place(draft: WorkflowDraft, node: DraftNode, raw: Json) -> None:
    x = as_number(raw.get("x"))
    y = as_number(raw.get("y"))
    if x is None or y is None:
        draft.tally.repair("position", "it could not be read; set to 0, 0", node.name)
        return
    node.x = x - node.width // 2
    node.y = y - node.height // 2


def _add_outputs(node: DraftNode, raw: Json) -> None:
    wires = as_list(raw.get("wires")) or []
    names = _output_names(raw)
    for place in range(min(len(wires), MAX_OUTPUTS)):
        name = names[place] if len(wires) > 1 and place < len(names) else None
        node.take_out(Port(str(place), "R", display=name, order=place))


def _output_names(raw: Json) -> list[str | None]:
    labels = as_list(raw.get("outputLabels"))
    if labels and any(as_text(label) for label in labels):
        return [clean(as_text(label) or "", limit=80) or None for label in labels]
    if raw.get("type") != "switch":
        return []
    return [_rule_name(as_dict(rule) or {}) for rule in as_list(raw.get("rules")) or ()]


def _rule_name(rule: Json) -> str | None:
    kind = as_text(rule.get("t"))
    if kind is None:
        return None
    if kind == "else":
        return "otherwise"
    value = rule.get("v")
    shown = (
        str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    )
    return clean(f"{kind} {shown}", limit=80) or None


def red_facts(name: str, *, config: bool = False) -> TypeFacts:
    """Returns the facts about a Node-RED type."""
    category, text = known_type("graphrag.importers.node_red", name) or (
        ("config", "Settings that other nodes share.") if config else ("action", "A Node-RED node.")
    )
    return facts(humanise(name), text, category)
