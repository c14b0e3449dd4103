"""The action that creates or changes a node type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, Self, final

from datasources.builtin_types import BUILTIN_TYPES
from tools.actions.base import (
    ActionClass,
    Conversion,
    ConversionPhase,
    Effects,
    SingleAction,
    TitleWords,
    WriteTool,
)
from tools.actions.field_checks import at, nearest, repeated_handles
from tools.actions.patches import apply_patches
from tools.actions.proposal_draft import SHOWN, Draft
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import ConfigureNodeType


@final
class ConfigureNodeTypeAction(SingleAction):
    type: Literal["configure_node_type"] = "configure_node_type"
    payload: ConfigureNodeType

    tool: ClassVar = WriteTool(
        description="For all nodes of the type. Code: patches or process.",
        example={
            "mode": "update",
            "typeKey": "filter",
            "patches": [{"search": "limit = 10", "replace": "limit = 20"}],
            "reason": "ten are too few",
        },
    )
    phase: ClassVar = ConversionPhase.TYPES

    def describe(self) -> str:
        verb = "create" if self.payload.mode == "create" else "change"
        return f"{verb} node type {self.payload.type_key}"

    def title(self, words: TitleWords) -> str:
        name = words.label(f"type/{self.payload.type_key}")
        return words.says(f"type_{self.payload.mode}", name=name)

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        if not self.payload.patches:
            return self
        config = snapshot.type_of(self.payload.type_key)
        code = (config.node.process or "") if config else ""
        new = apply_patches(code, self.payload.patches, where, problems)
        payload = self.payload.model_copy(update={"process": new, "patches": None})
        return self.model_copy(update={"payload": payload})

    def effects(self) -> Effects:
        return Effects(configures=self.payload)

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        payload = self.payload
        what = self._wrong_type(draft.snapshot)
        if payload.mode == "create" and payload.display_name is None:
            yield Problem(where=at(where, "displayName"), what="a new type needs one")
        if what:
            yield Problem(where=at(where, "typeKey"), what=what)
        given = payload.model_fields_set - {"mode", "type_key"}
        if payload.mode == "update" and not any(
            getattr(payload, name) is not None for name in given
        ):
            yield Problem(where=at(where, "mode"), what="nothing to change is given")
        yield from repeated_handles(payload.handles, at(where, "handles"))

    def _wrong_type(self, snapshot: Snapshot) -> str:
        """Returns why this type cannot be created or changed, "" where it can."""
        key = self.payload.type_key
        old = snapshot.type_of(key)
        name = key[:SHOWN]
        if self.payload.mode == "create":
            if old is not None:
                return f"the type {name!r} exists already; use mode update or another name"
            if len(key) > 200 or not key.isprintable():
                return "a type's name has at most 200 characters and none that cannot be seen"
            return ""
        if old is None:
            near = nearest(key, list(snapshot.types))
            hint = f"; did you mean {', '.join(near)}?" if near else "; use mode create"
            return f"no node type {name!r}{hint}"
        if BUILTIN_TYPES.get(old.type) is old:
            return f"{name!r} is built in and cannot be changed; create a type of your own"
        if old.workspace != snapshot.graph.workspace:
            whose = f"{name!r} belongs to workspace {old.workspace!r}"
            return f"{whose}; create a type of your own instead"
        return ""

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        conversion.configure_type(self.payload)

    def classes(self) -> frozenset[ActionClass]:
        return frozenset({"types"})

    def rests_on(self) -> Iterable[str]:
        return (f"type/{self.payload.type_key}",)
