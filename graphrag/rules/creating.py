"""Proposes a new node: alone, after, before or between others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from graphrag.rules.change_requests import edges_between
from graphrag.rules.markup import cite, code, plain
from graphrag.rules.normalized_text import EntityMention
from graphrag.rules.resolver import the_nodes, the_type
from graphrag.rules.turn_state import RulesTurn, call, detail
from tools import answer_tables as tables

Span = tuple[int, int]
Pair = tuple[tables.Handle, tables.Handle]


def create(turn: RulesTurn) -> NoReturn:
    """Propose a node with what the clauses of the request say of it."""
    request, rules = turn.request, turn.request.grammar
    spans = _clauses(turn)
    if rules.word("not_a_node").fullmatch(request.wording.folded[slice(*spans["head"])].strip()):
        turn.stop(turn.say("help_all"))
    if "between" in spans:
        pair = rules.word("pair").fullmatch(request.wording.folded, *spans["between"])
        if pair is None:
            turn.stop(turn.say("incomplete_create"))
        spans |= {"after": pair.span("a"), "before": pair.span("b")}
    said = {name: request.mention_at(spans[name]) if name in spans else None for name in _CLAUSES}
    kind = said["type"] or said["head"]
    if kind is not None and not rules.word("only_noun").sub("", kind.text.lower()).strip(" ,"):
        kind = None
    payload: dict[str, Any] = {"typeKey": the_type(turn, kind)}
    what = turn.say("new_node", type=code(payload["typeKey"]))
    if "named" in spans:
        payload["data"] = {"name": request.wording.text(*spans["named"])}
        what += f" “{plain(payload['data']['name'], 80)}”"
    payload |= {"sheet": said["sheet"].text} if said["sheet"] is not None else {}
    if said["after"] is None and said["before"] is None:
        turn.propose("create_node", payload, what)
    _propose_connected(turn, payload, what, said)


_CLAUSES = ("head", "type", "after", "before", "sheet")


def _clauses(turn: RulesTurn) -> dict[str, Span]:
    """Return where each clause of the request stands; `head` is what comes before the first."""
    rules, folded = turn.request.grammar, turn.request.wording.folded
    start, end = turn.request.spans["rest"]
    found = list(rules.word("clause").finditer(folded, start, end))
    stops = [clause.start() for clause in found[1:]] + [end]
    spans = {"head": (start, found[0].start() if found else end)}
    for clause, stop in zip(found, stops, strict=False):
        joint = rules.word("clause_joint").search(folded, clause.end(), stop) if stop != end else None
        spans.setdefault(clause.lastgroup or "", (clause.end(), joint.start() if joint else stop))
    return spans


def _propose_connected(
    turn: RulesTurn, payload: dict[str, Any], what: str, said: Mapping[str, EntityMention | None]
) -> NoReturn:
    """Propose the node with an edge from the node it comes after and one to the node it comes before.

    Between two connected nodes it takes the place of their edge, with the handles of that edge.
    """
    found = the_nodes(turn, said["after"], said["before"])
    config, near, *answers = turn.read_all(
        call("read_node_config", typeKey=payload["typeKey"]),
        call("list_node_edges", nodeKey=found[0], maxResults=100),
        *map(detail, found),
    )
    handles = {key: tables.handles_of_node(answer) for key, answer in zip(found, answers, strict=False)}
    first, last = found[0] if said["after"] else "", found[-1] if said["before"] else ""
    cut = ""
    if first and first == last:
        turn.stop(turn.say("same_node", node=cite(first)))
    if first and last and (between := edges_between(near, first, last)):
        edge, cut = between[0], tables.key_of(between[0].row)
        first, last = edge.source, edge.target
        handles[first] = tables.named_handles(handles[first], edge.source_handle)
        handles[last] = [handle for handle in handles[last] if handle.id == edge.target_handle]
    own, payload["edges"] = tables.handles_of_type(config), list[dict[str, Any]]()
    if first:
        payload["edges"].append(_edge(turn, "in", first, tables.fitting_pair(handles[first], own)))
        what += " " + turn.say("placed_after", node=cite(first))
    if last:
        payload["edges"].append(_edge(turn, "out", last, tables.fitting_pair(own, handles[last])))
        what += " " + turn.say("placed_before", node=cite(last))
    if not cut:
        turn.propose("create_node_with_edges", payload, what)
    parts = (("create_node_with_edges", payload), ("delete_edge", {"edgeKey": cut}))
    actions = [{"type": kind, "payload": arguments} for kind, arguments in parts]
    turn.propose("batch", {"actions": actions}, f"{what}. {turn.say('edge_goes', edge=code(cut))}")


def _edge(turn: RulesTurn, direction: str, key: str, pair: Pair | None) -> dict[str, Any]:
    if pair is None:
        turn.stop(turn.say("cannot_follow" if direction == "in" else "cannot_precede", node=cite(key)))
    mine, other = (pair[1], pair[0]) if direction == "in" else pair
    return {"direction": direction, "handleId": mine.id, "targetNodeKey": key, "targetHandleId": other.id}
