"""The actions that create a node, alone or connected to others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, cast, final

from tools.actions.base import (
    MAX_NAMED,
    ActionClass,
    Conversion,
    ConversionPhase,
    Effects,
    NewEdge,
    SingleAction,
    TitleWords,
    WriteTool,
    counted,
)
from tools.actions.field_checks import at, nearest, repeated_handles
from tools.actions.proposal_draft import SHOWN, Draft, End, problems_of_ends, problems_of_node
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import CreateNode, CreateNodeWithEdges, EdgeConnection
from tools.read_tools.views import find_sheet


@final
class CreateNodeAction(SingleAction):
    type: Literal["create_node"] = "create_node"
    payload: CreateNode

    tool: ClassVar = WriteTool(
        description="A node without edges.",
        example={
            "typeKey": "filter",
            "data": {"name": "Only active"},
            "reason": "inactive players are not wanted",
        },
    )
    phase: ClassVar = ConversionPhase.NODES

    def describe(self) -> str:
        return f"create a node of type {self.payload.type_key}"

    def title(self, words: TitleWords) -> str:
        return _title(self.payload, words)

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        payload = self.payload.model_copy(update=_names_as_keys(self.payload, snapshot))
        return self.model_copy(update={"payload": payload})

    def effects(self) -> Effects:
        return Effects(creates=self.payload, places=self.payload.pos_x is None)

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        yield from _problems(self.payload, where, draft)

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        conversion.create_node(self.payload, chosen)

    def classes(self) -> frozenset[ActionClass]:
        return _classes(self.payload)

    def rests_on(self) -> Iterable[str]:
        return _rests_on(self.payload)


@final
class CreateNodeWithEdgesAction(SingleAction):
    type: Literal["create_node_with_edges"] = "create_node_with_edges"
    payload: CreateNodeWithEdges

    tool: ClassVar = WriteTool(
        description="A node connected to others.",
        example={
            "typeKey": "filter",
            "data": {"name": "Only active"},
            "edges": [
                {
                    "direction": "in",
                    "handleId": "0",
                    "targetNodeKey": "fetch-api",
                    "targetHandleId": "0",
                }
            ],
            "reason": "inactive players are not wanted",
        },
        essential=True,
    )
    phase: ClassVar = ConversionPhase.NODES

    def describe(self) -> str:
        edges = counted(len(self.payload.edges), "edge")
        return f"create a node of type {self.payload.type_key} with {edges}"

    def title(self, words: TitleWords) -> str:
        ends = dict.fromkeys(words.label(edge.target_node_key) for edge in self.payload.edges)
        names = ", ".join(list(ends)[:MAX_NAMED])
        return words.says("connected", what=_title(self.payload, words), names=names)

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        payload = self.payload.model_copy(update=_names_as_keys(self.payload, snapshot))
        return self.model_copy(update={"payload": payload})

    def effects(self) -> Effects:
        own = self.payload.key or ""
        return Effects(
            creates=self.payload,
            connects=tuple(
                _new_edge(own, edge, f"edges.{number}")
                for number, edge in enumerate(self.payload.edges)
            ),
            places=self.payload.pos_x is None,
        )

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        yield from _problems(self.payload, where, draft)
        for number, edge in enumerate(self.payload.edges):
            yield from _of_connection(self.payload, edge, at(where, f"edges.{number}"), draft)

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        key = conversion.create_node(self.payload, chosen)
        for edge, of_edge in zip(self.payload.edges, chosen["edges"], strict=True):
            ends = _new_edge(key, edge)
            made = conversion.connect(
                edge.key, ends.source, ends.target, label=edge.label, sheet=None
            )
            of_edge |= {"key": made.key, "targetNodeKey": conversion.node(edge.target_node_key)}

    def classes(self) -> frozenset[ActionClass]:
        return _classes(self.payload)

    def rests_on(self) -> Iterable[str]:
        yield from _rests_on(self.payload)
        yield from (f"handles/{edge.target_node_key}" for edge in self.payload.edges)


def _new_edge(own: str, edge: EdgeConnection, field: str = "") -> NewEdge:
    here = (own, edge.handle_id)
    there = (edge.target_node_key, edge.target_handle_id)
    if edge.direction == "out":
        return NewEdge(source=here, target=there, field=field)
    return NewEdge(source=there, target=here, field=field)


def _title(payload: CreateNode, words: TitleWords) -> str:
    kind = words.label(f"type/{payload.type_key}")
    data: Any = payload.data
    name = cast(Mapping[str, Any], data).get("name") if isinstance(data, Mapping) else None
    if isinstance(name, str) and name.strip():
        return words.says("create", name=words.short(name), type=kind)
    return words.says("new", type=kind)


def _names_as_keys(payload: CreateNode, snapshot: Snapshot) -> dict[str, str]:
    """Returns the key of a type or sheet that is given by its name."""
    keys: dict[str, str] = {}
    config = snapshot.type_of(payload.type_key)
    if config is not None:
        keys["type_key"] = config.type
    if payload.sheet is not None and (sheet := find_sheet(snapshot.graph, payload.sheet)):
        keys["sheet"] = sheet
    return keys


def _classes(payload: CreateNode) -> frozenset[ActionClass]:
    return frozenset({"structure", "code"} if payload.process else {"structure"})


def _rests_on(payload: CreateNode) -> Iterator[str]:
    yield from (f"type/{payload.type_key}", f"sheet/{payload.sheet}", f"content/{payload.key}")
    # of a frame that grows its place alone: where it has grown meanwhile, it grows further
    yield from (f"position/{frame.node_key}" for frame in payload.frames or ())


def _problems(payload: CreateNode, where: str, draft: Draft) -> Iterator[Problem]:
    graph = draft.snapshot.graph
    if not draft.knows_type(payload.type_key):
        what = f"no node type {payload.type_key[:SHOWN]!r}"
        near = nearest(payload.type_key, [*draft.snapshot.types, *draft.types])
        hint = f"; did you mean {', '.join(near)}?" if near else "; see list_available_node_types"
        yield Problem(where=at(where, "typeKey"), what=what + hint)
    if payload.sheet is not None and payload.sheet not in graph.sheets_list:
        allowed = ", ".join(
            f"{key} ({name[:40]})" for key, name in list(graph.sheets_list.items())[:50]
        )
        what = f"no sheet {payload.sheet[:SHOWN]!r}"
        yield Problem(where=at(where, "sheet"), what=what, allowed=allowed)
    yield from repeated_handles(payload.handles, at(where, "handles"))
    if (payload.pos_x is None) != (payload.pos_y is None):
        yield Problem(where=at(where, "posX"), what="give both posX and posY, or neither")


def _of_connection(
    payload: CreateNode, edge: EdgeConnection, where: str, draft: Draft
) -> Iterator[Problem]:
    other = edge.target_node_key
    if other == payload.key:
        yield Problem(where=at(where, "targetNodeKey"), what="is the new node itself")
        return
    problems = list(problems_of_node(other, where, "targetNodeKey", draft))
    yield from problems
    if problems or not draft.knows_type(payload.type_key):
        return
    key = payload.key or ""
    if not payload.key:  # no other part can name it: it stands under a key that no other node has
        draft = replace(draft, created={**draft.created, key: payload})
    source = End(key=key, handle=edge.handle_id, where=at(where, "handleId"))
    target = End(key=other, handle=edge.target_handle_id, where=at(where, "targetHandleId"))
    if edge.direction == "in":
        source, target = target, source
    yield from problems_of_ends(source, target, draft)
    sheet = payload.sheet
    there = draft.sheet_of(other)
    if sheet is not None and there is not None and sheet != there:
        what = f"{other[:SHOWN]!r} is on sheet {there}, not {sheet}: an edge stays on one sheet"
        yield Problem(where=at(where, "targetNodeKey"), what=what)
