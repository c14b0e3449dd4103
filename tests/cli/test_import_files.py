"""The `import` command."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cli import import_files
from graphrag.embedding.embedder import EmbeddingUnreachable
from graphrag.importers import dispatch, exchange
from graphrag.importers.report import Tally
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
from tests.cli.conftest import invoke, n8n, printed, write


def test_an_import_can_be_listed_and_says_what_is_next(folder: Path) -> None:
    result = invoke(
        "import", write(folder / "flow.json", n8n("Read orders", "Send invoice")), exits=0
    )
    assert "created graph" in result.stdout
    (row,) = printed(invoke("graphs", "--json"))
    assert (row["name"], row["nodes"], row["edges"]) == ("Flow", 2, 1)


def test_the_language_of_a_new_graph_may_be_given_where_its_texts_do_not_show_it(
    folder: Path,
) -> None:
    file = write(folder / "flow.json", n8n("Rechnung lesen"))
    refused = invoke("import", file, "--language", "tlh", exits=2)
    assert "'en', 'de', 'es', 'fr', 'it', 'nl', 'pt'" in refused.stderr
    invoke("import", file, "--language", "de", "--no-embed", exits=0)
    assert printed(invoke("graphs", "--json"))[0]["language"] == "de"


def test_what_is_imported_is_embedded_and_left_where_that_is_not_wanted(folder: Path) -> None:
    file = write(folder / "flow.json", n8n("Read orders", "Send invoice"))
    assert "nodius embed-nodes" in invoke("import", file, "--no-embed").stderr
    assert printed(invoke("embed-nodes", "--dry-run", "--json"))["embedded"] == 2
    again = write(folder / "flow.json", n8n("Read orders", "Send invoice", "Archive"))
    invoke("import", again, exits=0)
    assert printed(invoke("embed-nodes", "--dry-run", "--json"))["embedded"] == 0


def test_an_import_stands_when_the_embedding_service_is_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise EmbeddingUnreachable(provider="p", reason="refused")

    monkeypatch.setattr(import_files, "embed_nodes", away)
    result = invoke("import", write(folder / "flow.json", n8n("Read orders")), exits=0)
    assert "created graph" in result.stdout
    assert "nodius embed-nodes" in result.stderr


def test_an_import_stopped_while_it_embeds_says_what_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(import_files, "embed_nodes", stopped)
    result = invoke("import", write(folder / "flow.json", n8n("Read orders")), exits=130)
    assert "created graph" in result.stdout
    assert "nodius embed-nodes" in result.stderr
    assert len(printed(invoke("graphs", "--json"))) == 1


def test_importing_again_updates_and_then_changes_nothing(folder: Path) -> None:
    file = write(folder / "flow.json", n8n("Read orders", identity="f1"))
    actions = [printed(invoke("import", file, "--json"))[0]["action"] for _ in range(2)]
    write(file, n8n("Read orders", "Send invoice", identity="f1"))
    actions.append(printed(invoke("import", file, "--json"))[0]["action"])
    assert actions == ["created", "unchanged", "updated"]
    assert len(printed(invoke("graphs", "--json"))) == 1


def test_bad_files_are_refused_and_the_others_go_on(folder: Path) -> None:
    good = write(folder / "good.json", n8n("Read orders"))
    broken = write(folder / "broken.json", '{"nodes": [')
    empty = write(folder / "empty.json", {})
    (folder / "folder").mkdir()
    result = invoke(
        "import", broken, empty, folder / "folder", folder / "absent.json", good, exits=1
    )
    assert f"{broken}: refused: it is not JSON" in result.stdout
    assert f"{folder / 'folder'}: refused: it is a folder" in result.stdout
    assert f"{folder / 'absent.json'}: refused: No such file" in result.stdout
    assert f"{good}: created graph" in result.stdout
    assert "5 files: 1 created, 4 refused" in result.stdout
    assert len(printed(invoke("graphs", "--json"))) == 1


def test_json_tells_a_script_what_became_of_each_file(folder: Path) -> None:
    good = write(folder / "good.json", n8n("A", "B"))
    bad = write(folder / "bad.json", "[]")
    result = invoke("import", good, bad, "--json", exits=1)
    first, second = printed(result)
    assert first == {
        "file": str(good),
        "graph": "flow-good",
        "format": "n8n",
        "action": "created",
        "nodes": 2,
        "edges": 1,
        "taken": 0,
        "kept": 0,
        "conflicts": 0,
        "approval": None,
        "remarks": [],
        "refused": None,
    }
    assert (second["graph"], second["action"]) == (None, "refused")
    assert second["refused"]


def test_a_graph_key_can_be_chosen_for_one_file_alone(folder: Path) -> None:
    files = [write(folder / f"{i}.json", n8n("A")) for i in range(2)]
    assert "as-i-wish" in invoke("import", files[0], "--graph", "as-i-wish").stdout
    assert "2 files are given" in invoke("import", *files, "--graph", "x", exits=2).stderr


def test_a_bad_graph_key_is_refused(folder: Path) -> None:
    result = invoke("import", write(folder / "a.json", n8n("A")), "--graph", "a\tb", exits=1)
    assert "refused" in result.stdout


def test_no_file_is_wrong_use() -> None:
    assert "Missing argument 'FILE...'" in invoke("import", exits=2).stderr


def test_a_key_of_another_workspace_is_refused_and_left_alone(folder: Path) -> None:
    file = write(folder / "flow.json", n8n("Read orders"))
    invoke("import", file, "--graph", "mine")
    write(file, n8n("Steal orders"))
    result = invoke("import", file, "--graph", "mine", "--workspace", "other", exits=1)
    assert "taken in another workspace" in result.stdout
    assert printed(invoke("export", "mine", "--json"))["nodes"][0]["data"]["name"] == "Read orders"


def test_a_file_that_is_too_large_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MAX_FILE_BYTES", 1 << 20)
    result = invoke("import", write(folder / "large.json", '"' + "x" * (1 << 20) + '"'), exits=1)
    assert "larger than 1 MiB" in result.stdout


def test_brackets_in_a_name_are_shown_as_they_are(folder: Path) -> None:
    file = write(folder / "[red]flow.json", n8n("A", name="[bold]Flow"))
    assert "[red]flow.json" in invoke("import", file).stdout
    assert "[bold]Flow" in invoke("graphs").stdout


def test_a_name_cannot_command_the_terminal(folder: Path) -> None:
    file = write(folder / "flow.json", n8n("A", name="Flow\x1b[2J\x9b2J\x07"))
    shown = invoke("import", file).output + invoke("graphs").output
    assert "Flow" in shown
    assert not {"\x1b", "\x9b", "\x07"} & set(shown)


def test_a_file_name_may_be_any_bytes(folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9.json")
    write(folder / name, n8n("A"))
    assert printed(invoke("import", name, "--json"))[0]["file"] == "caf\\udce9.json"
    assert "unchanged graph" in invoke("import", name).stdout


def test_each_workflow_of_a_list_becomes_a_graph_of_its_own(folder: Path) -> None:
    listed = [
        {**n8n("Read", "Send"), "id": "1", "name": "First"},
        {**n8n("Look"), "id": "2", "name": "Second"},
    ]
    file = write(folder / "all.json", listed)
    assert [row["action"] for row in printed(invoke("import", file, "--json", exits=0))] == [
        "created"
    ] * 2
    assert sorted(row["name"] for row in printed(invoke("graphs", "--json"))) == ["First", "Second"]
    assert [row["action"] for row in printed(invoke("import", file, "--json"))] == ["unchanged"] * 2
    assert "holds 2 n8n workflows" in invoke("import", file, "--graph", "one").stdout


def _recognise(document: Any, _tally: Tally) -> dict[str, Any] | None:
    return document if isinstance(document, dict) and "chain" in document else None


def _read(document: dict[str, Any], _target: ImportTarget, tally: Tally) -> WorkflowDraft:
    sheets = [DraftSheet(ref="", label="main")]
    draft = WorkflowDraft(format="chain", name="Chain", sheets=sheets, tally=tally)
    draft.types["step"] = TypeFacts(
        display_name="Step", description="Does something.", category="action"
    )
    for name in document["chain"]:
        draft.nodes.append(
            DraftNode(name=name, type="step", origin={"format": "chain", "name": name})
        )
        draft.nodes[-1].data = {"name": name}
    for source, target_node in zip(draft.nodes, draft.nodes[1:], strict=False):
        out = source.take_out(MAIN_OUT)
        inlet = target_node.take_in(MAIN_IN)
        draft.connect(
            DraftEdge(
                source=source, source_handle=out.id, target=target_node, target_handle=inlet.id
            )
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
    assert (done["format"], done["action"], done["nodes"], done["edges"]) == (
        "chain",
        "created",
        3,
        2,
    )
    (again,) = printed(
        invoke("import", "--json", write(folder / "c.json", {"chain": ["Read", "Send"]}))
    )
    assert (again["graph"], again["action"], again["nodes"]) == (done["graph"], "updated", 2)
    exported = printed(invoke("export", done["graph"]))
    assert [node["data"]["name"] for node in exported["nodes"]] == ["Read", "Send"]
    assert "a chain" in invoke("import", write(folder / "other.json", {"x": 1})).stdout
