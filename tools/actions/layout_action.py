"""The action that arranges nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, Self, final

from tools.actions.base import (
    ActionClass,
    Conversion,
    ConversionPhase,
    Effects,
    SingleAction,
    TitleWords,
    WriteTool,
    counted,
)
from tools.actions.field_checks import at
from tools.actions.proposal_draft import Draft, problems_of_node
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import ReorganizeLayout


@final
class ReorganizeLayoutAction(SingleAction):
    type: Literal["reorganize_layout"] = "reorganize_layout"
    payload: ReorganizeLayout

    tool: ClassVar = WriteTool(
        description="Tidies these nodes.",
        example={
            "nodeKeys": ["root", "fetch-api", "filter-active"],
            "strategy": "left_to_right",
            "reason": "the nodes overlap",
        },
    )
    phase: ClassVar = ConversionPhase.PLACES
    names_nodes: ClassVar = False

    def describe(self) -> str:
        return f"arrange {counted(len(self.payload.node_keys), 'node')}"

    def title(self, words: TitleWords) -> str:
        return words.says("arrange", count=len(self.payload.node_keys))

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        return self

    def effects(self) -> Effects:
        return Effects(places=self.payload.positions is None)

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        for number, key in enumerate(self.payload.node_keys):
            yield from problems_of_node(key, where, f"nodeKeys.{number}", draft)
        # A frame takes along what it holds, or grows for it; a pinned node stays: these are
        # other nodes than nodeKeys.
        placed = [position.node_key for position in self.payload.positions or ()]
        for number, key in enumerate(placed):
            yield from problems_of_node(key, where, f"positions.{number}.nodeKey", draft)
        if len(placed) != len(set(placed)):
            yield Problem(where=at(where, "positions"), what="must have each node once")

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        conversion.arrange(self.payload, chosen)

    def classes(self) -> frozenset[ActionClass]:
        return frozenset({"layout"})

    def rests_on(self) -> Iterable[str]:
        yield from (f"position/{key}" for key in self.payload.node_keys)
        for place in self.payload.positions or ():
            yield f"position/{place.node_key}"
            if place.width is not None or place.height is not None:
                yield f"field/{place.node_key}/size"
