"""Ten thousand wild calls of the write tools: each is answered, none changes the graph."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from tests.contracts.samples import snapshot as seen
from tests.tools.proposing import GRAPH, WORKSPACE, make_graph
from tools.base import ToolBox, ToolContext
from tools.proposals import parse_action
from tools.write_tools import WRITE_TOOLS

CALLS = 10_000
ATOMS: list[Any] = [None, True, 0, -1, 1e308, 2**70, float("nan"), [], {}, [[]], "x" * 5_000]
ATOMS += ["", "a", "b", "c", "text", "task", "ab", "$1", "0", "R", "in", "out", "create", "__proto__"]
ATOMS += ["\x00", "é🦜", "\ud800", "'; DROP TABLE nodes; --", "{{node:a}}"]
NAMES = [
    "typeKey",
    "key",
    "sheet",
    "posX",
    "posY",
    "data",
    "process",
    "edges",
    "direction",
    "handleId",
    "nodeKey",
    "targetNodeKey",
    "targetHandleId",
    "sourceKey",
    "sourceHandle",
    "targetKey",
    "targetHandle",
    "edgeKey",
    "changes",
    "patches",
    "search",
    "replace",
    "mode",
    "displayName",
    "handles",
    "nodeKeys",
    "strategy",
    "positions",
    "actions",
    "type",
    "payload",
    "reason",
    "graphKey",
    "_key",
    "data.name",
    "constructor",
    "handles.R.point.0",
]


def wild(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if depth > 3 or kind < 0.6:
        return chance.choice(ATOMS)
    if kind < 0.75:
        return [wild(chance, depth + 1) for _ in range(chance.randrange(3))]
    return {chance.choice(NAMES): wild(chance, depth + 1) for _ in range(chance.randrange(4))}


def mutated(value: Any, chance: random.Random) -> Any:
    """Change a right call here and there."""
    if chance.random() < 0.1:
        return wild(chance)
    if isinstance(value, dict):
        kept = {key: mutated(item, chance) for key, item in value.items() if chance.random() > 0.05}
        return kept | ({chance.choice(NAMES): wild(chance)} if chance.random() < 0.1 else {})
    return [mutated(item, chance) for item in value] if isinstance(value, list) else value


def in_our_graph(example: Any) -> Any:
    """Put our keys in the place of the examples', so that many calls come through."""
    ours = {"fetch-api": "a", "filter-active": "b", "root": "c", "error-handler": "text", "filter": "task"}
    ours |= {"disconnected-note": "far", "edge-root-fetch": "ab", "log-node": "task"}
    if isinstance(example, dict):
        return {key: in_our_graph(item) for key, item in example.items()}
    if isinstance(example, list):
        return [in_our_graph(item) for item in example]
    return ours.get(example, example) if isinstance(example, str) else example


async def test_ten_thousand_wild_calls_change_nothing() -> None:
    source = (await make_graph()).source(WORKSPACE)
    before = await seen(source)
    context = ToolContext(source=source, graph_key=GRAPH, role="admin")
    box, chance, outcomes = ToolBox(WRITE_TOOLS), random.Random(20260101), Counter[str]()
    for number in range(CALLS):
        tool = chance.choice(WRITE_TOOLS)
        right = in_our_graph(dict(tool.example))
        arguments = mutated(right, chance) if chance.random() < 0.8 else wild(chance)
        raw: Any = (
            arguments if isinstance(arguments, dict) and chance.random() < 0.5 else json.dumps(arguments)
        )
        if isinstance(raw, str) and chance.random() < 0.1:
            raw = raw[: chance.randrange(len(raw) + 1)]
        result = await box.run(tool.name, raw, context)
        outcomes[result.error.code if result.error else "proposed"] += 1
        if result.error is None:
            parse_action(result.data)
        if number % 1_000 == 0:
            assert await seen(source) == before
    assert await seen(source) == before
    assert min(outcomes[kind] for kind in ("proposed", "invalid_arguments", "not_found")) > CALLS / 100, (
        outcomes
    )
