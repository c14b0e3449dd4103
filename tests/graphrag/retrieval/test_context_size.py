"""What a context costs beside compact JSON that holds the same facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from datasources.types import Handles, ScoredNode
from graphrag.importers import import_workflow
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.context import ContextOptions, build_context
from graphrag.retrieval.retrieval_result import Retrieval
from tools.compact import cut
from tools.toon import compact_json

WORKFLOWS = Path(__file__).parents[3] / "../shared/data/workflows"
NODES = 20
FILES = 5


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def json_handles(handles: Handles) -> dict[str, Any]:
    return {side: [point.to_document() for point in group.point] for side, group in handles.items()}


def sizes_of(path: Path) -> tuple[int, int] | None:
    """Return the tokens of the context of the first nodes, and of its facts as JSON; None: too few nodes.

    The JSON has the same nodes, edges and types, the same fields and the same truncation; data,
    handles, scores and reasons stand in it as they are stored, and nulls are left out.
    """
    imported = import_workflow(path.read_bytes(), file_name=path.name, workspace="w")
    nodes = [node for node in imported.nodes if node.type != "note"][:NODES]
    if len(nodes) < NODES:
        return None
    configs = {config.type: config for config in imported.configs}
    found = {
        node.key: ScoredNode(node=node, score=round(1 - i / NODES, 2), reasons=("text", "vector"))
        for i, node in enumerate(nodes)
    }
    options = ContextOptions(budget_tokens=1_000_000)
    retrieval = Retrieval(
        graph=imported.graph,
        question="",
        mode="text",
        nodes=tuple(found.values()),
        edges=tuple(imported.edges),
        configs=configs,
    )
    context = build_context(retrieval, options, count_tokens)
    assert len(context.nodes) == NODES
    rows: list[dict[str, Any]] = []
    for row in context.tables["nodes"]:
        scored = found[row["_key"]]
        data = {**cast(dict[str, Any], scored.node.data or {})}
        written = {**row, "name": data.pop("name", None), "score": scored.score, "reasons": scored.reasons}
        del written["why"]
        text = compact_json(data)
        whole = len(text) <= options.truncate_data
        written["data"] = (data if whole else cut(text, options.truncate_data)) or None
        if row.get("handles"):
            written["handles"] = json_handles(scored.node.handles)
        rows.append(json_row(written))
    types = [
        json_row(
            {
                **row,
                "name": configs[row["type"]].display_name,
                "handles": json_handles(configs[row["type"]].node.handles),
            }
        )
        for row in context.tables["types"]
    ]
    edges = [json_row(dict(row)) for row in context.tables.get("edges", [])]
    return context.tokens, count_tokens(compact_json({"nodes": rows, "edges": edges, "types": types}))


@pytest.mark.parametrize(
    ("step", "share"), [(5, 0.72), pytest.param(1, 0.7, marks=pytest.mark.slow, id="all of them")]
)
@pytest.mark.slow
def test_context_of_real_workflows_needs_30_percent_fewer_tokens_than_compact_json(
    step: int, share: float
) -> None:
    if not WORKFLOWS.is_dir():
        pytest.skip("the sample workflows are not beside this checkout (../shared/data/workflows)")
    measured = [size for path in sorted(WORKFLOWS.glob("n8n-*.json"))[::step] if (size := sizes_of(path))]
    assert len(measured) >= FILES
    toon, as_json = (sum(column) for column in zip(*measured, strict=True))
    assert toon <= share * as_json, f"{1 - toon / as_json:.1%} fewer over {len(measured)} workflows"
