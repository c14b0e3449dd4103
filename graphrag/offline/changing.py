"""Turns plain wishes for changes into one proposal: connect, delete, rename, set a field."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from graphrag.offline.desk import Call, CannotGoOn, Desk
from graphrag.offline.handles import Handle, fitting_pair, handles_of_node, named
from graphrag.offline.intents import Connect, DeleteEdge, DeleteNodes, Rename, SetField
from graphrag.offline.names import Found, Unclear, find_nodes, the_nodes, which
from graphrag.offline.node_answers import data_of, field_path, fields_of
from graphrag.offline.readings import Row, cell
from graphrag.offline.shown import bullets, cite, code, ends_of, plain
from graphrag.offline.type_names import overview_and_types, the_type
from graphrag.offline.wording import Mention, letters
from tools.toon import compact_json

_SEPARATOR = re.compile(r"\s*(?:,|;|\s(?:and|et)\s)\s*", re.IGNORECASE)
_LABELS = ("name", "title", "label", "displayName")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,10})?")
_WORDS = {"true": True, "vrai": True, "oui": True, "yes": True, "on": True,
          "false": False, "faux": False, "non": False, "no": False, "off": False}  # fmt: skip


def reason_of(desk: Desk) -> str:
    """Return the reason of a proposal: what the person asked for."""
    return desk.say("reason", what=plain(desk.conversation.question.original, 300))


def connect(desk: Desk, wanted: Connect) -> NoReturn:
    """Propose an edge. Raises: Needs; CannotGoOn with what is unclear or does not fit."""
    source, target = the_nodes(desk, [wanted.source, wanted.target])
    if source.key == target.key:
        raise CannotGoOn(desk.say("same_node", node=cite(source.key)))
    details = desk.read_all(
        Call(name="read_node_detail", arguments={"key": source.key}),
        Call(name="read_node_detail", arguments={"key": target.key}),
    )
    outputs, inputs = handles_of_node(details[0]).outputs, handles_of_node(details[1]).inputs
    if wanted.output is not None and not named(outputs, wanted.output):
        shown = _shown(outputs) or desk.say("none")
        raise CannotGoOn(
            desk.say("no_output", name=code(wanted.output), node=cite(source.key), outputs=shown)
        )
    pair = fitting_pair(outputs, inputs, wanted.output)
    if pair is None:
        facts = {"source": cite(source.key), "target": cite(target.key)}
        raise CannotGoOn(
            desk.say(
                "no_fitting_handles",
                **facts,
                outputs=_shown(outputs) or desk.say("none"),
                inputs=_shown(inputs) or desk.say("none"),
            )
        )
    arguments: dict[str, Any] = {
        "sourceKey": source.key,
        "sourceHandle": pair[0].id,
        "targetKey": target.key,
        "targetHandle": pair[1].id,
        "reason": reason_of(desk),
    }
    if wanted.label:
        arguments["label"] = wanted.label
    what = desk.say("an_edge", source=cite(source.key), target=cite(target.key), output=_shown([pair[0]]))
    if len(outputs) > 1 and wanted.output is None:
        what += " " + desk.say("other_outputs", outputs=_shown([h for h in outputs if h != pair[0]]))
    desk.propose("create_edge", arguments, desk.say("propose", what=what))


def _shown(handles: Sequence[Handle]) -> str:
    return ", ".join(code(h.id) + (f" “{plain(h.label, 40)}”" if h.label else "") for h in handles[:10])


def delete_nodes(desk: Desk, wanted: DeleteNodes) -> NoReturn:
    """Propose to delete a node, or several named together. Raises: Needs, CannotGoOn."""
    found = _named_together(desk, wanted.node)
    keys = list(dict.fromkeys(one.key for one in found))
    lists = desk.read_all(
        *(
            Call(name="list_node_edges", arguments={"key": key, "direction": "any", "limit": 100})
            for key in keys
        )
    )
    edges = {cell(row.get("_key")) for reading in lists for row in reading.rows("edges")}
    what = desk.say("delete", what=", ".join(map(cite, keys)))
    what += " " + (desk.say("edges_go", count=len(edges)) if edges else desk.say("no_edge_goes"))
    text, reason = desk.say("propose", what=what), reason_of(desk)
    if len(keys) == 1:
        desk.propose("delete_node", {"nodeKey": keys[0], "reason": reason}, text)
    actions = [{"type": "delete_node", "payload": {"nodeKey": key}} for key in keys]
    desk.propose("batch", {"actions": actions, "reason": reason}, text)


def _named_together(desk: Desk, mention: Mention) -> list[Found]:
    """Return the nodes of `X`, or of `X and Y` where nothing is called so. At most nine at once."""
    parts = [part for part in _SEPARATOR.split(mention.text) if part][:9]
    if mention.quoted or len(parts) < 2:
        return the_nodes(desk, [mention])
    apart = [Mention(text=_without_article(part)) for part in parts]
    whole, *found = find_nodes(desk, [mention, *apart], sure=True)
    if isinstance(whole, Found):
        return [whole]
    unclear = [one for one in found if isinstance(one, Unclear)]
    if unclear:
        raise CannotGoOn("\n".join([*(which(desk, one) for one in unclear), desk.say("nothing_proposed")]))
    return [one for one in found if isinstance(one, Found)]


def _without_article(text: str) -> str:
    return re.sub(r"^(?:the|le|la|les|l')\s*(?=\S)", "", text.strip(), flags=re.IGNORECASE)


def delete_edge(desk: Desk, wanted: DeleteEdge) -> NoReturn:
    """Propose to delete an edge, named by its key or its ends. Raises: Needs, CannotGoOn."""
    reason = reason_of(desk)
    if wanted.source is None or wanted.target is None:
        key = wanted.key.text if wanted.key else ""
        text = desk.say("propose", what=desk.say("delete", what=code(key)))
        desk.propose("delete_edge", {"edgeKey": key, "reason": reason}, text)
    source, target = the_nodes(desk, [wanted.source, wanted.target])
    reading = desk.read("list_node_edges", key=source.key, direction="any", limit=100)
    edges = _edges_between(reading.rows("edges"), source.key, target.key)
    facts = {"source": cite(source.key), "target": cite(target.key)}
    if not edges:
        raise CannotGoOn(desk.say("not_connected", **facts))
    if len(edges) > 1:
        lines = [
            code(cell(row.get("_key")))
            + f": {plain(cell(row.get('from')), 100)} → {plain(cell(row.get('to')), 100)}"
            for row in edges
        ]
        raise CannotGoOn(f"{desk.say('several_edges', **facts)}\n{bullets(lines)}")
    key = cell(edges[0].get("_key"))
    what = desk.say("delete", what=desk.say("the_edge", key=code(key), **facts))
    desk.propose("delete_edge", {"edgeKey": key, "reason": reason}, desk.say("propose", what=what))


def _edges_between(rows: Sequence[Row], source: str, target: str) -> list[Row]:
    """Return the edges from one to the other; where there is none, those the other way."""
    keys = {source: 1, target: 1}
    ends = [(found, row) for row in rows if (found := ends_of(row, keys)) is not None]
    there = [row for found, row in ends if (found[0], found[2]) == (source, target)]
    return there or [row for found, row in ends if (found[0], found[2]) == (target, source)]


def rename(desk: Desk, wanted: Rename) -> NoReturn:
    """Propose another name. Raises: Needs, CannotGoOn."""
    (node,) = the_nodes(desk, [wanted.node])
    data = data_of(desk, node)
    fields = fields_of(data)
    field = next((name for name in _LABELS if isinstance(fields.get(name), str)), "name")
    what = desk.say("rename", node=cite(node.key), name=plain(wanted.name, 120))
    arguments = {
        "nodeKey": node.key,
        "changes": {f"data.{field}": wanted.name},
        "reason": reason_of(desk),
    }
    desk.propose("update_node", arguments, desk.say("propose", what=what))


def set_field(desk: Desk, wanted: SetField) -> NoReturn:
    """Propose another value of a field. Raises: Needs; CannotGoOn where the field is unclear."""
    (node,) = the_nodes(desk, [wanted.node])
    name = wanted.field.removeprefix("data.")
    if letters(name) in ("process", "code", "script"):
        changes: dict[str, Any] = {"process": wanted.value}
    elif letters(name) == "type":
        kind = the_type(desk, Mention(text=wanted.value, quoted=wanted.quoted), overview_and_types(desk)[1])
        changes = {"type": cell(kind.get("type"))}
    else:
        data = data_of(desk, node)
        path = field_path(data, name)
        fields = fields_of(data)
        if path is None and letters(name) in ("width", "height"):
            changes = {f"size.{letters(name)}": _value(wanted, 1)}
        else:
            if path is None:
                _refuse_near(desk, node, name, list(fields))
            path = path or name.replace(" ", "_")
            changes = {f"data.{path}": _value(wanted, fields.get(path))}
    (field, value), *_ = changes.items()
    what = desk.say("set", field=code(field), node=cite(node.key), value=code(compact_json(value)))
    arguments = {"nodeKey": node.key, "changes": changes, "reason": reason_of(desk)}
    desk.propose("update_node", arguments, desk.say("propose", what=what))


def _refuse_near(desk: Desk, node: Found, name: str, fields: Sequence[str]) -> None:
    """Ask which field is meant where an existing one is nearly called so."""
    low = letters(name)
    near = [field for field in fields if low and (low in letters(field) or letters(field) in low)]
    if near:
        shown = ", ".join(code(field) for field in near[:8])
        raise CannotGoOn(desk.say("near_fields", field=code(name), node=cite(node.key), fields=shown))


def _value(wanted: SetField, now: Any) -> Any:
    """Return the value as JSON: as it is written, but text where the field holds text now."""
    text = wanted.value
    if wanted.quoted or isinstance(now, str):
        return text
    if text.casefold() in _WORDS and (isinstance(now, bool) or text.casefold() in ("true", "false")):
        return _WORDS[text.casefold()]
    if isinstance(now, int | float) and not isinstance(now, bool):
        text = text.replace(",", ".")
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if text[:1] in "[{" or text == "null":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return wanted.value
    return wanted.value
