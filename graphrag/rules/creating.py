"""Proposes a new node: alone, after, before or between others."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from graphrag.rules.change_requests import action
from graphrag.rules.conversation import Call
from graphrag.rules.markup import cite, code, edges_of, plain
from graphrag.rules.normalized_text import EntityMention
from graphrag.rules.resolver import (
    FoundNode,
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
from graphrag.rules.tool_tables import ToolTables, cell, key_of
from graphrag.rules.turn_state import RulesTurn, detail, edges_at

Handles = dict[str, list[Handle]]


def create(turn: RulesTurn) -> NoReturn:
    """Propose a node: alone, after, before or between others; or the edge that was asked for so."""
    request, rules = turn.request, turn.request.grammar
    spans = _clauses(turn)
    mentions = {name: request.mention_at(span) for name, span in spans.items() if name != "named"}
    if "ends" in spans:
        turn.stop(turn.say("incomplete_connect"))
    if rules.word("not_a_node").fullmatch(request.wording.folded[slice(*spans["head"])].strip()):
        turn.stop(turn.say("help_all"))
    name = request.wording.text(*spans["named"]) if "named" in spans else ""
    kind = mentions.get("type") or mentions.get("head")
    after, before = mentions.get("after"), mentions.get("before")
    if "between" in spans:
        pair = rules.word("pair").fullmatch(request.wording.folded, *spans["between"])
        if pair is None:
            turn.stop(turn.say("incomplete_create"))
        after, before = request.mention_at(pair.span("a")), request.mention_at(pair.span("b"))
    if kind is not None and not rules.word("only_noun").sub("", kind.text.lower()).strip(" ,"):
        kind = None
    _propose_node(turn, kind, name, after, before, mentions.get("sheet"))


def _clauses(turn: RulesTurn) -> dict[str, tuple[int, int]]:
    """Return where each clause of the request stands; `head` is what comes before the first."""
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
    turn: RulesTurn,
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
    payload: dict[str, Any] = {"typeKey": cell(the_type(turn, kind, types).get("type"))}
    payload |= {"data": {"name": name}} if name else {}
    payload |= {"sheet": the_sheet(turn, sheet, overview)} if sheet is not None else {}
    what = turn.say("new_node", type=code(payload["typeKey"])) + (f" “{plain(name, 80)}”" if name else "")
    if not found:
        turn.propose("create_node", payload, what)
    config, *answers = turn.read_all(
        Call(name="read_node_config", arguments={"typeKey": payload["typeKey"]}),
        *(detail(one.key) for one in found),
        *([edges_at(found[0].key)] if len(found) == 2 else []),
    )
    handles = {one.key: handles_of_node(answer) for one, answer in zip(found, answers, strict=False)}
    cut, first, last = "", found[0] if after else None, found[-1] if before else None
    if first is not None and last is not None:
        if first.key == last.key:
            turn.stop(turn.say("same_node", node=cite(first.key)))
        first, last, cut = _in_flow(answers[2], first, last, handles)
    own, edges = handles_of_type(config), list[dict[str, Any]]()
    if first is not None:
        edges.append(_edge(turn, "in", first.key, fitting_pair(handles[first.key], own)))
        what += " " + turn.say("placed_after", node=cite(first.key))
    if last is not None:
        edges.append(_edge(turn, "out", last.key, fitting_pair(own, handles[last.key])))
        what += " " + turn.say("placed_before", node=cite(last.key))
    payload["edges"] = edges
    if not cut:
        turn.propose("create_node_with_edges", payload, what)
    actions = [action("create_node_with_edges", **payload), action("delete_edge", edgeKey=cut)]
    turn.propose("batch", {"actions": actions}, f"{what}. {turn.say('edge_goes', edge=code(cut))}")


def _in_flow(
    edges: ToolTables, first: FoundNode, last: FoundNode, handles: Handles
) -> tuple[FoundNode, FoundNode, str]:
    """Return two nodes in the order of the flow and the key of the edge between them, if there is one.

    Only the handles of that edge are left in `handles`, so that the new edges take its place.
    """
    for edge in edges_of(edges, (first.key, last.key)):
        if edge.source != edge.target:
            if edge.source != first.key:
                first, last = last, first
            handles[first.key] = named_handles(handles[first.key], edge.source_handle)
            handles[last.key] = [h for h in handles[last.key] if h.id == edge.target_handle]
            return first, last, key_of(edge.row)
    return first, last, ""


def _edge(turn: RulesTurn, direction: str, key: str, pair: tuple[Handle, Handle] | None) -> dict[str, Any]:
    if pair is None:
        turn.stop(turn.say("cannot_follow" if direction == "in" else "cannot_precede", node=cite(key)))
    mine, other = (pair[1], pair[0]) if direction == "in" else pair
    return {"direction": direction, "handleId": mine.id, "targetNodeKey": key, "targetHandleId": other.id}
