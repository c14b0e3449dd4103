"""Facts about n8n node types: their inputs and outputs with names, and descriptions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from graphrag.importers.json_values import Json, as_dict, as_list, as_text
from graphrag.importers.readable_keys import clean, slug
from graphrag.importers.type_facts import TypeFacts, facts, humanise, known_type, read_type_file
from graphrag.importers.workflow_draft import MAIN_IN, MAIN_OUT, DraftNode, Port

STICKY = "n8n-nodes-base.stickyNote"
_PACKAGE = "graphrag.importers.n8n"


def _section(section: str) -> Mapping[str, Any]:
    """Returns a section of `types.toml`."""
    return read_type_file(_PACKAGE)[section]


def short_type(type_name: str) -> str:
    """Returns the last part of a type's name: `httpRequest` for `n8n-nodes-base.httpRequest`."""
    return type_name.rsplit(".", 1)[-1] or type_name


def is_trigger(type_name: str) -> bool:
    short = short_type(type_name)
    return short in _section("ports")["triggers"] or short.lower().endswith("trigger")


def subnode_kind(type_name: str) -> str | None:
    """Returns the connection kind by which a type serves AI nodes, None for a step of the flow."""
    short = short_type(type_name)
    return next(
        (kind for pattern, kind in _section("subnodes").items() if re.match(pattern, short)), None
    )


def kind_label(kind: str) -> str | None:
    """Returns the label of a connection, None for kind `main`."""
    if kind == "main":
        return None
    return _section("labels").get(kind) or clean(kind.removeprefix("ai_"), limit=60)


def output_port(kind: str, index: int, name: str | None = None) -> Port:
    """Returns the output port of a connection kind and index."""
    if kind == "main":
        return Port(str(index), "R", display=name, order=index)
    if kind.startswith("ai_"):
        return Port(_kind_id(kind, index), "T", accept=_kind_id(kind, 0), order=index)
    return Port(_kind_id(kind, index), "R", display=kind_label(kind), order=1000 + index)


def input_port(kind: str, index: int) -> Port:
    """Returns the input port of a connection kind and index."""
    if kind == "main":
        return Port(str(index), "L", order=index)
    if kind.startswith("ai_"):
        return Port(_kind_id(kind, index), "D", accept=_kind_id(kind, 0), order=index)
    return Port(_kind_id(kind, index), "L", order=1000 + index)


def _kind_id(kind: str, index: int) -> str:
    base = kind if re.fullmatch(r"[A-Za-z0-9_]{1,40}", kind) else (slug(kind, limit=40) or "other")
    if base.isdigit():  # numbers are the ids of main ports
        base = f"kind-{base}"
    return base if index == 0 else f"{base}-{index}"


def output_names(
    type_name: str, version: int | float, parameters: Json, *, error_output: bool
) -> list[str | None]:
    """Returns the names of the main outputs in order, None for one that has only a number."""
    short = short_type(type_name)
    fixed: Mapping[str, list[str]] = _section("outputs")
    if short in fixed:
        names: list[str | None] = [*fixed[short]]
    elif short == "splitInBatches":
        names = ["done", "loop"] if version >= 3 else ["loop", "done"]
    elif short == "switch":
        names = _switch_names(parameters)
    elif short == "textClassifier":
        names = _listed(as_dict(parameters.get("categories")), ("categories",), "category")
    else:
        names = [None]
    return [*names, "error"] if error_output else names


def _switch_names(parameters: Json) -> list[str | None]:
    rules = as_dict(parameters.get("rules"))
    names = _listed(rules, ("values", "rules"), "outputKey")
    if not names:
        return [None]
    options = as_dict(parameters.get("options")) or {}
    if options.get("fallbackOutput") != "extra":
        return names
    return [*names, _plain(options.get("renameFallbackOutput")) or "fallback"]


def _listed(holder: Json | None, fields: tuple[str, ...], name: str) -> list[str | None]:
    for field in fields:
        items = as_list((holder or {}).get(field))
        if items:
            return [_plain((as_dict(item) or {}).get(name)) for item in items[:64]]
    return []


def _plain(value: object) -> str | None:
    text = as_text(value)
    return clean(text, limit=80) or None if text else None


def add_usual_ports(node: DraftNode, names: list[str | None]) -> None:
    """Adds the ports that the node's type has, used or not."""
    kind = subnode_kind(node.type)
    if kind:
        node.take_out(output_port(kind, 0))
        return
    if not is_trigger(node.type):
        node.take_in(MAIN_IN)
    if len(names) == 1 and names[0] is None:
        node.take_out(MAIN_OUT)
    else:
        for index, name in enumerate(names):
            node.take_out(output_port("main", index, name))
    short = short_type(node.type)
    for pattern, kinds in _section("consumers").items():
        if re.match(pattern, short):
            for consumed in kinds:
                node.take_in(input_port(consumed, 0))


def n8n_facts(type_name: str) -> TypeFacts:
    """Returns the facts about an n8n type."""
    short = short_type(type_name)
    subnode = subnode_kind(type_name)
    listed = known_type(_PACKAGE, short)
    type_file = read_type_file(_PACKAGE)
    kinds: dict[str, str] = type_file["kinds"]
    if listed:
        category, text = listed
    elif subnode:
        category = "ai"
        text = kinds.get(subnode, "A part of an AI node.")
    elif is_trigger(type_name):
        category, text = "trigger", "Starts the workflow when something happens there."
    elif short.startswith("vectorStore"):
        category = "ai"
        text = kinds["ai_vectorStore"]
    elif "langchain" in type_name:
        category, text = "ai", "A step of AI processing."
    else:
        category, text = "action", "An n8n action."
    name = type_file["names"].get(short) or _part_name(short) or humanise(short)
    return facts(name, text, category)


def _part_name(short: str) -> str | None:
    """Returns the name of a part of an AI node as n8n shows it: `Wikipedia Tool` for
    `toolWikipedia`.
    """
    for prefix, noun in read_type_file(_PACKAGE)["parts"].items():
        kind = short.removeprefix(prefix)
        if kind != short and kind[:1].isupper():
            suffix = "".join(noun.split())
            return f"{humanise(kind.removesuffix(suffix) or kind)} {noun}"
    return None


def is_n8n_type(type_name: str) -> bool:
    """Returns whether a name has the form of types of n8n or its community: `PACKAGE.TYPE`."""
    return re.fullmatch(r"(@[\w-]+/)?[\w-]*n8n[\w-]*(\.\w+)+", type_name) is not None
