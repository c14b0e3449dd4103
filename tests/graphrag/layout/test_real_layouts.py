"""Published workflows and our own samples, arranged: no overlap, nobody leaves a note, few edges cross."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from datasources.types import Edge, Node
from graphrag.importers import import_workflow
from graphrag.layout import arrange
from tests.graphrag.layout.measuring import measured, moved
from tests.support.each_row import each_row

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "../shared/data/workflows").glob("n8n-*.json"))
SAMPLES = [ROOT / "mock_data/nba.json", *sorted((ROOT / "mock_data/workflows").glob("*.json"))]


@pytest.mark.slow
@pytest.mark.skipif(len(FILES) < 188, reason="no published workflows in ../shared/data/workflows")
def test_188_workflows_are_arranged_without_tearing_them_apart(capsys: pytest.CaptureFixture[str]) -> None:
    drawn, tidy, seconds = Counter[str](), Counter[str](), 0.0
    many: dict[str, Node] = {}
    links: list[Edge] = []
    for file in FILES:
        read = import_workflow(file.read_bytes(), file_name=file.name, workspace="w")
        nodes = {node.key: node for node in read.nodes}
        drawn += Counter(measured(nodes, read.edges, nodes))
        tidy += Counter(measured(moved(nodes, arrange(nodes, read.edges)), read.edges, nodes))
        if len(many) < 1013:
            many |= {
                f"{file}{n.key}": n.replace(key=f"{file}{n.key}", pos_y=n.pos_y + 9e3 * len(many))
                for n in nodes.values()
            }
            links += [e.replace(source=f"{file}{e.source}", target=f"{file}{e.target}") for e in read.edges]
    begun = time.process_time()
    arrange(many, links)
    seconds = time.process_time() - begun
    with capsys.disabled():
        old = {"crossings": 293, "overlaps": 0, "left their note": 3195, "strayed into one": 0}
        print(f"\n{'':20}{'as drawn':>10}{'before':>10}{'now':>10}")
        for name, before in old.items():  # `before`: edges alone, notes as if they were steps
            print(f"{name:20}{drawn[name]:>10}{before:>10}{tidy[name]:>10}")
        print(f"{len(many)} nodes at once: {seconds:.2f} s")
    assert tidy["crossings"] <= 140
    assert not tidy["overlaps"] + tidy["left their note"] + tidy["strayed into one"]


@each_row("file", SAMPLES)
def test_samples_have_no_overlaps(file: Path) -> None:
    read = import_workflow(file.read_bytes(), file_name=file.name, workspace="w")
    nodes = {node.key: node for node in read.nodes}
    found = measured(nodes, read.edges, nodes)
    assert not found["overlaps"]
