"""The actions that create and delete an edge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, Self, final

from tools.actions.base import (
    ActionClass,
    Conversion,
    ConversionPhase,
    Effects,
    NewEdge,
    SingleAction,
    TitleWords,
    WriteTool,
)
from tools.actions.field_checks import at
from tools.actions.proposal_draft import SHOWN, Draft, End, problems_of_ends, problems_of_node
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import CreateEdge, DeleteEdge


@final
class CreateEdgeAction(SingleAction):
    type: Literal["create_edge"] = "create_edge"
    payload: CreateEdge

    tool: ClassVar = WriteTool(
        description="From an out to an in handle.",
        example={
            "sourceKey": "fetch-api",
            "sourceHandle": "1",
            "targetKey": "error-handler",
            "targetHandle": "0",
            "reason": "errors should be logged",
        },
        essential=True,
    )
    phase: ClassVar = ConversionPhase.EDGES

    def describe(self) -> str:
        return f"connect {self.payload.source_key} to {self.payload.target_key}"

    def title(self, words: TitleWords) -> str:
        source = words.label(self.payload.source_key)
        return words.says("connect", source=source, target=words.label(self.payload.target_key))

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        return self

    def effects(self) -> Effects:
        return Effects(connects=(self._new_edge(),))

    def _new_edge(self) -> NewEdge:
        edge = self.payload
        return NewEdge(
            source=(edge.source_key, edge.source_handle),
            target=(edge.target_key, edge.target_handle),
        )

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        edge = self.payload
        problems = [
            *problems_of_node(edge.source_key, where, "sourceKey", draft),
            *problems_of_node(edge.target_key, where, "targetKey", draft),
        ]
        if edge.key and edge.key in draft.snapshot.edges:
            what = f"{edge.key[:SHOWN]!r} is taken by an edge"
            problems.append(Problem(where=at(where, "key"), what=what))
        yield from problems
        if problems:
            return
        yield from problems_of_ends(
            End(key=edge.source_key, handle=edge.source_handle, where=at(where, "sourceHandle")),
            End(key=edge.target_key, handle=edge.target_handle, where=at(where, "targetHandle")),
            draft,
        )
        sheets = {
            "the source": draft.sheet_of(edge.source_key),
            "the target": draft.sheet_of(edge.target_key),
            "the edge": edge.sheet,
        }
        chosen = {name: sheet for name, sheet in sheets.items() if sheet is not None}
        if len(set(chosen.values())) > 1:
            shown = ", ".join(f"{name} is on {sheet}" for name, sheet in chosen.items())
            what = f"an edge stays on one sheet, but {shown}"
            yield Problem(where=at(where, "targetKey"), what=what)

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        edge = self.payload
        ends = self._new_edge()
        made = conversion.connect(
            edge.key, ends.source, ends.target, label=edge.label, sheet=edge.sheet, chosen=chosen
        )
        chosen |= {"key": made.key, "sourceKey": made.source, "targetKey": made.target}

    def classes(self) -> frozenset[ActionClass]:
        return frozenset({"structure"})

    def rests_on(self) -> Iterable[str]:
        edge = self.payload
        return (f"handles/{edge.source_key}", f"handles/{edge.target_key}", f"edge/{edge.key}")


@final
class DeleteEdgeAction(SingleAction):
    type: Literal["delete_edge"] = "delete_edge"
    payload: DeleteEdge

    tool: ClassVar = WriteTool(
        description="By its _key.",
        example={"edgeKey": "edge-root-fetch", "reason": "the start is triggered elsewhere"},
        essential=True,
    )
    phase: ClassVar = ConversionPhase.CHANGES

    def describe(self) -> str:
        return f"delete edge {self.payload.edge_key}"

    def title(self, words: TitleWords) -> str:
        return words.says("disconnect", name=words.label(f"edge/{self.payload.edge_key}"))

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        return self

    def effects(self) -> Effects:
        return Effects(cuts=frozenset({self.payload.edge_key}))

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        key = self.payload.edge_key
        if key not in draft.snapshot.edges:
            what = f"no edge {key[:SHOWN]!r} in this graph; list_node_edges shows edge keys"
            yield Problem(where=at(where, "edgeKey"), what=what)

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        conversion.delete_edge(self.payload.edge_key)

    def classes(self) -> frozenset[ActionClass]:
        return frozenset({"delete"})

    def rests_on(self) -> Iterable[str]:
        return (f"edge/{self.payload.edge_key}",)
