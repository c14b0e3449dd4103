"""The actions on one node that is there: update, move, delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, Self, final

from datasources.text import effective_process
from tools.actions.base import (
    MAX_NAMED,
    ActionClass,
    Conversion,
    ConversionPhase,
    Effects,
    SingleAction,
    TitleWords,
    WriteTool,
)
from tools.actions.field_changes import json_document, meant_path
from tools.actions.field_checks import at
from tools.actions.patches import apply_patches
from tools.actions.proposal_draft import (
    SHOWN,
    Draft,
    problems_of_deletion,
    problems_of_node,
    problems_of_stored_node,
)
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import DeleteNode, MoveNode, UpdateNode

_CLASS_OF_FIELD: Final[Mapping[str, ActionClass]] = {
    "process": "code",
    "posX": "layout",
    "posY": "layout",
    "size": "layout",
    "data": "content",
    "handles": "structure",
    "type": "structure",
    "typeVersion": "structure",
    "sheet": "structure",
}
"""Of the fields of a node; any other is content."""


@final
class UpdateNodeAction(SingleAction):
    type: Literal["update_node"] = "update_node"
    payload: UpdateNode

    tool: ClassVar = WriteTool(
        description="Sets data fields, name or code of a node.",
        example={
            "nodeKey": "fetch-api",
            "changes": {"data.timeoutMs": 5000},
            "reason": "8 s is too long to wait",
        },
        essential=True,
    )
    phase: ClassVar = ConversionPhase.CHANGES

    def describe(self) -> str:
        names = [*self.payload.changes, *(["process"] if self.payload.patches else [])]
        return f"change {', '.join(names)[:120]} of node {self.payload.node_key}"

    def title(self, words: TitleWords) -> str:
        old = words.label(self.payload.node_key)
        new = self.payload.changes.get("data.name")
        renames = isinstance(new, str)
        others = [path for path in self.payload.changes if not (renames and path == "data.name")]
        others += ["process"] if self.payload.patches else []
        code = words.says("code")
        fields = [code if path == "process" else path.removeprefix("data.") for path in others]
        more = ", …" if len(fields) > MAX_NAMED else ""
        shown = words.short(", ".join(fields[:MAX_NAMED]) + more)
        if not renames:
            return words.says("change", name=old, fields=shown)
        text = words.says("rename", name=old, new=words.short(str(new)))
        return words.says("also", what=text, fields=shown) if fields else text

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        payload = self.payload
        node = snapshot.nodes.get(payload.node_key)
        if node is None:
            return self  # the unknown key is reported, and nothing can be patched
        document = json_document(node)
        changes = {
            meant_path(document, name, value): value for name, value in payload.changes.items()
        }
        if len(changes) != len(payload.changes):
            changes = dict(payload.changes)
        if payload.patches:
            code = effective_process(node, snapshot.type_of(node.type))
            changes["process"] = apply_patches(code, payload.patches, where, problems)
        payload = payload.model_copy(update={"changes": changes, "patches": None})
        return self.model_copy(update={"payload": payload})

    def effects(self) -> Effects:
        return Effects(updates={self.payload.node_key: self.payload.changes})

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        key = self.payload.node_key
        yield from problems_of_stored_node(key, where, draft)
        yield from problems_of_deletion(key, where, "nodeKey", draft)
        if "type" in self.payload.changes:
            name = self.payload.changes["type"]
            if not isinstance(name, str) or not draft.knows_type(name):
                what = f"no node type {str(name)[:SHOWN]!r}"
                yield Problem(where=at(where, "changes.type"), what=what)

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        conversion.update_node(self.payload.node_key, self.payload.changes)

    def classes(self) -> frozenset[ActionClass]:
        fields = [name.partition(".")[0] for name in self.payload.changes]
        fields += ["process"] if self.payload.patches else []
        return frozenset(_CLASS_OF_FIELD.get(name, "content") for name in fields)

    def rests_on(self) -> Iterable[str]:
        for path in self.payload.changes:
            yield f"field/{self.payload.node_key}/{path}"
            if path.startswith("handles"):
                yield f"edges/{self.payload.node_key}"


@final
class MoveNodeAction(SingleAction):
    type: Literal["move_node"] = "move_node"
    payload: MoveNode

    tool: ClassVar = WriteTool(
        description="Moves a node.",
        example={
            "nodeKey": "fetch-api",
            "posX": 400,
            "posY": 280,
            "reason": "it covers another node",
        },
    )
    phase: ClassVar = ConversionPhase.PLACES

    def describe(self) -> str:
        payload = self.payload
        return f"move node {payload.node_key} to {payload.pos_x:g}, {payload.pos_y:g}"

    def title(self, words: TitleWords) -> str:
        name = words.label(self.payload.node_key)
        return words.says("move", name=name, x=self.payload.pos_x, y=self.payload.pos_y)

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        return self

    def effects(self) -> Effects:
        return Effects()

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        yield from problems_of_node(self.payload.node_key, where, "nodeKey", draft)

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        chosen["nodeKey"] = conversion.node(self.payload.node_key)
        conversion.move_node(chosen["nodeKey"], self.payload.pos_x, self.payload.pos_y)

    def classes(self) -> frozenset[ActionClass]:
        return frozenset({"layout"})

    def rests_on(self) -> Iterable[str]:
        return (f"position/{self.payload.node_key}",)


@final
class DeleteNodeAction(SingleAction):
    type: Literal["delete_node"] = "delete_node"
    payload: DeleteNode

    tool: ClassVar = WriteTool(
        description="Its edges go, too.",
        example={"nodeKey": "disconnected-note", "reason": "nothing uses it"},
        essential=True,
    )
    phase: ClassVar = ConversionPhase.CHANGES

    def describe(self) -> str:
        return f"delete node {self.payload.node_key}"

    def title(self, words: TitleWords) -> str:
        return words.says("delete", name=words.label(self.payload.node_key))

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        return self

    def effects(self) -> Effects:
        return Effects(deletes=frozenset({self.payload.node_key}))

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        yield from problems_of_stored_node(self.payload.node_key, where, draft)

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        conversion.delete_node(self.payload.node_key)

    def classes(self) -> frozenset[ActionClass]:
        return frozenset({"delete"})

    def rests_on(self) -> Iterable[str]:
        return (f"content/{self.payload.node_key}", f"edges/{self.payload.node_key}")
