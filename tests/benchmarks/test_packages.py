"""The package graph is read from what apt prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import retrieval
from tests.benchmarks.packages import parse

AVAILABLE = """Package: tool
Version: 2
Depends: libone (>= 1.0), libtwo | libone, gone
Recommends: libone:any
Description: a tool
 in two lines
Tag: role::program,
 use::editing

Package: libone
Description: one library

Package: libtwo

Package: tool
Version: 1
Description: an older tool
"""


def test_packages_are_nodes_and_what_they_need_are_edges() -> None:
    packages = parse(AVAILABLE)
    nodes = {node.key: node.data["notes"] for node in packages.nodes("big")}
    assert nodes == {
        "tool": "a tool in two lines role::program, use::editing",
        "libone": "one library",
        "libtwo": "",
    }
    edges = [(edge.source, edge.target, edge.label) for edge in packages.edges("big")]
    assert edges == [
        ("tool", "libone", "depends on"),
        ("tool", "libtwo", "depends on"),
        ("tool", "libone", "recommends"),
    ]
    assert sorted(packages.questions(9, 1)) == ["a tool in two lines", "one library"]


@pytest.mark.slow
async def test_the_benchmark_measures_the_package_graph_whose_edges_have_labels(tmp_path: Path) -> None:
    libraries = [
        f"Package: lib{i}\nDepends: lib{i // 2}\nDescription: library number {i} of what tool {i} needs\n"
        for i in range(1, 120)
    ]
    packages = parse("\n".join(libraries))
    report = await retrieval.measure(len(libraries), tmp_path, ["hybrid"], 2, packages)
    assert report.modes is not None
    assert report.modes["hybrid"]["recall_20"] == 1.0
