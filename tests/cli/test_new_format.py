"""A new format is one declaration and one entry: this file follows the recipe of docs/importing.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphrag.importers import dispatch
from graphrag.importers.type_facts import TypeFacts
from graphrag.importers.workflow_draft import (
    MAIN_IN,
    MAIN_OUT,
    DraftEdge,
    DraftNode,
    DraftSheet,
    WorkflowDraft,
)
from graphrag.importers.workflow_format import ImportTarget, WorkflowFormat
from tests.cli.conftest import invoke, printed, write


def _recognise(document: Any) -> dict[str, Any] | None:
    return document if isinstance(document, dict) and "chain" in document else None


def _read(document: dict[str, Any], target: ImportTarget) -> WorkflowDraft:
    draft = WorkflowDraft(format="chain", name="Chain", sheets=[DraftSheet(ref="", label="main")])
    draft.types["step"] = TypeFacts(display_name="Step", description="Does something.", category="action")
    for name in document["chain"]:
        draft.nodes.append(DraftNode(name=name, type="step", origin={"format": "chain", "name": name}))
        draft.nodes[-1].data = {"name": name}
    for source, target_node in zip(draft.nodes, draft.nodes[1:], strict=False):
        out, inlet = source.take_out(MAIN_OUT), target_node.take_in(MAIN_IN)
        draft.connect(
            DraftEdge(source=source, source_handle=out.id, target=target_node, target_handle=inlet.id)
        )
    return draft


CHAIN = WorkflowFormat(name="chain", title="a chain", recognise=_recognise, read=_read)


def test_a_file_of_a_new_format_is_imported_merged_and_exported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "FORMATS", (CHAIN, *dispatch.FORMATS))
    (done,) = printed(
        invoke("import", "--json", write(folder / "c.json", {"chain": ["Read", "Check", "Send"]}))
    )
    assert (done["format"], done["action"], done["nodes"], done["edges"]) == ("chain", "created", 3, 2)
    (again,) = printed(invoke("import", "--json", write(folder / "c.json", {"chain": ["Read", "Send"]})))
    assert (again["graph"], again["action"], again["nodes"]) == (done["graph"], "updated", 2)
    exported = printed(invoke("export", done["graph"]))
    assert [node["data"]["name"] for node in exported["nodes"]] == ["Read", "Send"]
    refused = invoke("import", write(folder / "other.json", {"x": 1}))
    assert "a chain" in refused.stdout
