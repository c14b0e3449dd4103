"""The action that takes over the documents of a file. People import files; no model does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, Self, cast, final, get_args

from tools.actions.base import (
    ActionClass,
    Conversion,
    ConversionPhase,
    Effects,
    SingleAction,
    TitleWords,
    counted,
)
from tools.actions.proposal_draft import Draft
from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposal_parts import ImportFile


@final
class ImportFileAction(SingleAction):
    type: Literal["import_file"] = "import_file"
    payload: ImportFile

    tool: ClassVar = None
    phase: ClassVar = ConversionPhase.NODES
    names_nodes: ClassVar = False

    def describe(self) -> str:
        file = self.payload.file[:120]
        count = self.payload.count
        return f"take over {counted(count, 'change')} from {file}" if count else f"import {file}"

    def title(self, words: TitleWords) -> str:
        count = self.payload.count
        file = words.short(self.payload.file)
        return words.says("conflicts" if count else "import", n=count, file=file)

    def resolved(self, where: str, snapshot: Snapshot, problems: list[Problem]) -> Self:
        return self

    def effects(self) -> Effects:
        return Effects()

    def check(self, where: str, draft: Draft) -> Iterator[Problem]:
        yield from ()  # what it comes to is checked as every store checks

    def convert(self, conversion: Conversion, chosen: dict[str, Any]) -> None:
        conversion.take_file(self.payload)

    def classes(self) -> frozenset[ActionClass]:
        return frozenset(get_args(ActionClass))

    def rests_on(self) -> Iterable[str]:
        payload = self.payload
        for key in [*(node["_key"] for node in payload.put_nodes), *payload.delete_nodes]:
            yield from (f"content/{key}", f"position/{key}")
        yield from (f"edges/{key}" for key in payload.delete_nodes)
        for key in [*(edge["_key"] for edge in payload.put_edges), *payload.delete_edges]:
            yield f"edge/{key}"
        yield from (f"type/{config['_key']}" for config in payload.put_types or ())
        for name, value in (payload.put_graph or {}).items():
            if name == "sheetsList" and isinstance(value, dict):
                yield from (f"sheet-name/{sheet}" for sheet in cast(dict[str, Any], value))
            else:
                yield f"graph/{name}"
