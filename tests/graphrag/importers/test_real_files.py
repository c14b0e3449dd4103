"""Every workflow at hand imports, counts add up, and importing again changes nothing."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from graphrag.importers import ImportResult, import_workflow
from tests.graphrag.importers.helpers import WORKSPACE, Workbench, assert_sound, dropped_count
from tests.support.data_files import workflow_batches


def _targets(value: Any) -> int:
    if isinstance(value, dict):
        return 1 if "node" in value else sum(_targets(item) for item in value.values())
    return sum(_targets(item) for item in value) if isinstance(value, list) else 0


def _n8n_counts(document: Any) -> tuple[int, int]:
    return len(document["nodes"]), _targets(document["connections"])


def _red_counts(document: Any) -> tuple[int, int]:
    subflows = [item for item in document if item["type"] == "subflow"]
    ends = [end for item in subflows for end in (*item.get("in", []), *item.get("out", []))]
    ends += [item["status"] for item in subflows if item.get("status")]
    steps = [item for item in document if item["type"] not in ("tab", "subflow")]
    wires = sum(len(output) for item in steps for output in item.get("wires") or [])
    links = {
        (item["id"], other) if item["type"] != "link in" else (other, item["id"])
        for item in steps
        if item["type"] in ("link in", "link out", "link call")
        for other in item.get("links", [])
    }
    return len(steps) + len(ends), wires + sum(len(end["wires"]) for end in ends) + len(links)


def _check_counts(document: Any, result: ImportResult) -> None:
    report = result.report
    nodes, edges = _n8n_counts(document) if report.format == "n8n" else _red_counts(document)
    assert nodes == len(result.nodes) + dropped_count(report, "node")
    assert edges == len(result.edges) + dropped_count(report, "edge") + dropped_count(
        report, "link"
    )


@pytest.mark.parametrize("paths", workflow_batches())
async def test_workflows_import_whole_and_again_without_change(paths: list[Path]) -> None:
    for path in paths:
        raw = path.read_bytes()
        first = import_workflow(raw, file_name=path.name, workspace=WORKSPACE)
        assert first.report.format == ("node-red" if path.name.startswith("nodered") else "n8n"), (
            path
        )
        assert_sound(first)
        _check_counts(orjson.loads(raw), first)

        bench = Workbench()
        for action in ("created", "unchanged"):
            assert (await bench.take(raw, file_name=path.name)).action == action, path
        as_it_is = await bench.take(raw, file_name=path.name, replaces=True)
        assert (as_it_is.action, as_it_is.conflicts) == ("unchanged", 0), path

        copy = await bench.exported(first.graph.key)
        other = Workbench()
        assert (await other.take(copy, file_name="copy.json")).remarks() == [], path
        assert await other.exported(first.graph.key) == copy, path
