"""Asks the rules what the page suggests to ask about a graph: each suggestion has an answer."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from datasources.base import MutableGraphDataSource
from datasources.mock import open_nba
from datasources.types import Mutation
from graphrag.agent.events import Completed, ProposalPending
from graphrag.app.models import rules_provider
from graphrag.approvals import Person
from graphrag.i18n import page_texts
from graphrag.importers import import_workflow
from graphrag.rules.patterns import grammar
from tests.support.agents import collected, setting_on

NODE = shutil.which("node")
WORKFLOWS = Path(__file__).parents[2] / "../shared/data/workflows"
EDITOR = Person("p", "editor", "default")

pytestmark = pytest.mark.skipif(
    NODE is None, reason="no Node.js on this machine: install `node` (20 or later)"
)


@pytest.mark.parametrize("language", ["en", "fr"])
@pytest.mark.parametrize("step", [60, pytest.param(6, marks=pytest.mark.slow)])
async def test_what_the_page_suggests_has_an_answer(tmp_path: Path, step: int, language: Any) -> None:
    if not WORKFLOWS.is_dir():
        pytest.skip("the sample workflows are not beside this checkout (../shared/data/workflows)")
    async with open_nba("default") as database:
        source = database.source("default")
        files = [(file, file.read_bytes()) for file in sorted(WORKFLOWS.glob("*.json"))[::step]]
        graphs = [await _imported(source, file, raw) for file, raw in files]
        suggested = _suggested(graphs, language, tmp_path / "graphs.json")
        setting = setting_on(database, rules_provider(), language=language)
        failed: list[str] = []
        for graph, questions in zip(graphs, suggested, strict=True):
            assert questions
            for question in [*questions, f"What does {graph['graph']['name']} do?"]:
                events = await collected(setting.agent.run(None, graph["graph"]["_key"], question, EDITOR))
                if not _is_answer(events[-1], language):
                    failed.append(f"{graph['graph']['_key']}: {question}")
        assert not failed


async def _imported(source: MutableGraphDataSource, file: Path, raw: bytes) -> dict[str, Any]:
    key = file.stem.replace("_", "-")
    made = import_workflow(raw, file_name=file.name, workspace="default", graph_key=key)
    for config in made.configs:
        await source.put_node_config(config)
    await source.create_graph(made.graph)
    await source.apply(Mutation(graph_key=made.graph.key, put_nodes=made.nodes, put_edges=made.edges))
    return {
        "graph": made.graph.to_document(),
        "nodes": [node.to_document() for node in made.nodes],
        "edges": [edge.to_document() for edge in made.edges],
        "types": [config.to_document() for config in made.configs],
    }


def _suggested(graphs: list[dict[str, Any]], language: Any, file: Path) -> list[list[str]]:
    """Return what the page's own script suggests for each graph."""
    assert NODE is not None
    file.write_text(json.dumps(graphs))
    texts = {key: text for key, text in page_texts(language).items() if key.startswith("ask.")}
    done = subprocess.run(
        [NODE, str(Path(__file__).with_name("suggestions.mjs"))],
        capture_output=True,
        text=True,
        env={"GRAPHS": str(file), "TEXTS": json.dumps(texts)},
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


def _is_answer(ending: Any, language: Any) -> bool:
    """Return whether a turn ended in a proposal, or in an answer that names a node and asks nothing back."""
    if isinstance(ending, ProposalPending):
        return True
    no_answers = ("no_such_nodes", "near_nodes", "several_nodes", "found", "nothing_found")
    texts = [grammar(each).texts[name].partition("{")[0] for each in ("en", "fr") for name in no_answers]
    return (
        isinstance(ending, Completed)
        and "{{node:" in ending.text
        and not any(text in ending.text for text in texts)
    )
