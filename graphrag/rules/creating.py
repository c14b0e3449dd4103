"""Proposes a new node: alone, after, before or between others."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from graphrag.rules.change_requests import action, detail_of, edges_at
from graphrag.rules.conversation import Call
from graphrag.rules.markup import cite, code, ends_of, plain
from graphrag.rules.normalized_text import EntityMention
from graphrag.rules.resolver import (
    Found,
    Handle,
    fitting_pair,
    handles_of_node,
    handles_of_type,
    named_handles,
    overview_and_types,
    the_nodes,
    the_sheet,
    the_type,
)
from graphrag.rules.tool_tables import Answer, Row, cell, key_of
from graphrag.rules.turn_state import Turn


def create(turn: Turn) -> NoReturn:
    """Propose a node: alone, after, before or between others; or the edge that was asked for so."""
    spans = _clauses(turn)
    mentions = {name: turn.request.mention_at(span) for name, span in spans.items() if name != "named"}
    head = turn.request.wording.folded[slice(*spans["head"])].strip()
    if "ends" in spans:
        turn.stop(turn.say("incomplete_connect"))
    if turn.request.grammar.word("not_a_node").fullmatch(head):
        turn.stop(turn.say("help_all"))
    name = turn.request.wording.text(*spans["named"]) if "named" in spans else ""
    kind = mentions.get("type") or mentions.get("head")
    after, before = mentions.get("after"), mentions.get("before")
    if "between" in spans:
        pair = turn.request.grammar.word("pair").fullmatch(turn.request.wording.folded, *spans["between"])
        if pair is None:
            turn.stop(turn.say("incomplete_create"))
        after, before = turn.request.mention_at(pair.span("a")), turn.request.mention_at(pair.span("b"))
    if kind is not None and not turn.request.grammar.word("only_noun").sub("", kind.text.lower()).strip(" ,"):
        kind = None
    _propose_node(turn, kind, name, after, before, mentions.get("sheet"))


def _clauses(turn: Turn) -> dict[str, tuple[int, int]]:
    """Return where each clause of a wish for a node stands; `head` is what comes before the first."""
    rules, folded = turn.request.grammar, turn.request.wording.folded
    start, end = turn.request.spans["rest"]
    found = list(rules.word("clause").finditer(folded, start, end))
    stops = [clause.start() for clause in found[1:]] + [end]
    spans = {"head": (start, found[0].start() if found else end)}
    for clause, stop in zip(found, stops, strict=False):
        joint = rules.word("clause_joint").search(folded, clause.end(), stop) if stop != end else None
        spans.setdefault(clause.lastgroup or "", (clause.end(), joint.start() if joint else stop))
    begin, stop = spans["head"]
    quote = re.compile(rules.words["quote"]).search(folded, begin, stop)
    if quote is not None and "named" not in spans:  # add a filter "Only active"
        spans |= {"named": quote.span(), "head": (begin, quote.start())}
    return spans


def _propose_node(
    turn: Turn,
    kind: EntityMention | None,
    name: str,
    after: EntityMention | None,
    before: EntityMention | None,
    sheet: EntityMention | None,
) -> NoReturn:
    ends = [one for one in (after, before) if one is not None]
    (overview, types), found = turn.together(
        lambda: overview_and_types(turn), lambda: the_nodes(turn, *ends) if ends else []
    )
    type_key = cell(the_type(turn, kind, types).get("type"))
    payload: dict[str, Any] = {"typeKey": type_key}
    if name:
        payload["data"] = {"name": name}
    if sheet is not None:
        payload["sheet"] = cell(the_sheet(turn, sheet, overview).get("sheet"))
    what = turn.say("new_node", type=code(type_key)) + (f" “{plain(name, 80)}”" if name else "")
    if not found:
        turn.propose("create_node", payload, what)
    config, *details = turn.read_all(
        Call(name="read_node_config", arguments={"type": type_key}),
        *(detail_of(one.key) for one in found),
        *([edges_at(found[0].key)] if len(found) == 2 else []),
    )
    handles = {one.key: handles_of_node(detail) for one, detail in zip(found, details, strict=False)}
    cut, first, last = None, found[0] if after else None, found[-1] if before else None
    if first is not None and last is not None:
        if first.key == last.key:
            turn.stop(turn.say("same_node", node=cite(first.key)))
        first, last, cut = _between(details[2], first, last, handles)
    own, edges = handles_of_type(config), list[dict[str, Any]]()
    if first is not None:
        edges.append(_edge(turn, "in", first.key, fitting_pair(handles[first.key], own)))
        what += " " + turn.say("placed_after", node=cite(first.key))
    if last is not None:
        edges.append(_edge(turn, "out", last.key, fitting_pair(own, handles[last.key])))
        what += " " + turn.say("placed_before", node=cite(last.key))
    whole = {**payload, "edges": edges}
    if cut is None:
        turn.propose("create_node_with_edges", whole, what)
    actions = [action("create_node_with_edges", **whole), action("delete_edge", edgeKey=key_of(cut))]
    turn.propose("batch", {"actions": actions}, f"{what}. {turn.say('edge_goes', edge=code(key_of(cut)))}")


def _between(
    edges: Answer, first: Found, last: Found, handles: dict[str, list[Handle]]
) -> tuple[Found, Found, Row | None]:
    """Return two nodes in the order of the flow and the edge between them, whose handles are then used."""
    for row in edges.rows("edges"):
        ends = ends_of(row, {first.key: 1, last.key: 1})
        if ends is not None and ends[0] != ends[2]:
            if ends[0] != first.key:
                first, last = last, first
            handles[first.key] = named_handles(handles[first.key], ends[1])
            handles[last.key] = [h for h in handles[last.key] if h.id == ends[3]]
            return first, last, row
    return first, last, None


def _edge(turn: Turn, direction: str, key: str, pair: tuple[Handle, Handle] | None) -> dict[str, Any]:
    if pair is None:
        turn.stop(turn.say("cannot_follow" if direction == "in" else "cannot_precede", node=cite(key)))
    mine, other = (pair[1], pair[0]) if direction == "in" else pair
    return {"direction": direction, "handleId": mine.id, "targetNodeKey": key, "targetHandleId": other.id}
