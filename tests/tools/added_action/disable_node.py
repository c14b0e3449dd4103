"""The action that a test adds: it disables a node, or enables it again."""

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
)
from tools.actions.proposal_draft import Draft, problems_of_stored_node
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import NodeKey, Part


class DisableNode(Part):
    node_key: NodeKey
    disabled: bool = True


@final
class DisableNodeAction(SingleAction):
    type: Literal["disable_node"] = "disable_node"
    payload: DisableNode

    tool: ClassVar = WriteTool(
        description="Disables a node.",
        example={"nodeKey": "fetch-api", "reason": "the service is down"},
    )
    phase: ClassVar = ConversionPhase.CHANGES

    def describe(self) -> str:
        return f"disable node {self.payload.node_key}"

    def title(self, words: TitleWords) -> str:
        return words.says("disable", name=words.label(self.payload.node_key))

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        return self

    def effects(self) -> Effects:
        return Effects(updates={self.payload.node_key: self._changes()})

    def _changes(self) -> dict[str, Any]:
        return {"data.disabled": self.payload.disabled}

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        yield from problems_of_stored_node(self.payload.node_key, where, draft)

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        conversion.update_node(self.payload.node_key, self._changes())

    def classes(self) -> frozenset[ActionClass]:
        return frozenset({"content"})

    def rests_on(self) -> Iterable[str]:
        return (f"field/{self.payload.node_key}/data.disabled",)
