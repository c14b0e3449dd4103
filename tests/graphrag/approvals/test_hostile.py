"""Ten thousand wild calls become proposals or answers, and no graph changes without a decision."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from graphrag.approvals import ApprovalError, Approve, Asked, Person, Reject
from tests.graphrag.approvals.helpers import EDITOR, FLOW, OTHER_EDITOR, REVIEWER, STRANGER, VIEWER, Bench
from tests.tools.proposing import make_graph
from tools.base import ToolBox, ToolContext
from tools.proposals import MalformedProposal
from tools.write_tools import WRITE_TOOLS

GRAPHS, CALLS = 50, 200
ATOMS: list[Any] = [None, True, -1, 1e308, "", "b", "bc", "task", "$new", "\ud800", "x" * 500, "data.name"]
NAMES = ["key", "sheet", "posX", "data", "process", "edges", "nodeKey", "typeKey", "changes", "__proto__"]
OURS = {
    "fetch-api": "a",
    "filter-active": "b",
    "root": "c",
    "error-handler": "text",
    "filter": "task",
    "disconnected-note": "far",
    "edge-root-fetch": "ab",
    "log-node": "task",
}
"""The keys of the tools' examples, with those of the test's graph that stand for them."""


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
    if isinstance(example, dict):
        return {key: in_our_graph(item) for key, item in example.items()}
    if isinstance(example, list):
        return [in_our_graph(item) for item in example]
    return OURS.get(example, example) if isinstance(example, str) else example


@pytest.mark.slow
async def test_ten_thousand_wild_calls_change_nothing_without_an_allowed_decision() -> None:
    chance, answers = random.Random(11), Counter[str]()
    for _ in range(GRAPHS):
        bench = Bench(database=await make_graph())
        before, revision = await bench.stored_bytes(), await bench.revision()
        for number in range(CALLS):
            answers[await _call(bench, chance, f"t{number % 9}", number)] += 1
        assert await bench.stored_bytes() == before
        assert await bench.revision() == revision
        assert (await bench.approvals().audit.verify()).is_sound
        assert {a.status for a in await bench.approvals().list(by=EDITOR, limit=CALLS)} <= {
            "pending",
            "rejected",
        }
    assert sum(answers.values()) == GRAPHS * CALLS
    assert min(answers["refused"], answers["rejected"], answers["not permitted"]) > 1_000


async def _call(bench: Bench, chance: random.Random, thread: str, number: int) -> str:
    """Make one call as a model would, and let the wrong people decide what comes of it."""
    approvals = bench.approvals()
    tool = chance.choice(WRITE_TOOLS)
    arguments = mutated(in_our_graph(tool.example), chance)
    source = await approvals.pending_view(graph_key=FLOW, thread_id=thread)
    context = ToolContext(source=source, graph_key=FLOW, role="editor")
    result = await ToolBox(WRITE_TOOLS).run(tool.name, json.dumps(arguments), context)
    if result.is_error:
        return "refused"
    asked = {"graph_key": FLOW, "thread_id": thread, "turn": number, "tool_call_id": str(number)}
    try:
        approval = await approvals.propose(result.data, Asked(**asked, asker=EDITOR, model="m"))
    except (ApprovalError, MalformedProposal):
        return "not proposed"
    (left,) = await approvals.decide_by_policy([approval.id])
    assert left.needs_person
    assert left.is_open
    if chance.random() < 0.5:
        await approvals.decide(approval.id, Reject("\ud800 no"), REVIEWER)
        return "rejected"
    wrong = chance.choice([VIEWER, OTHER_EDITOR, STRANGER, Person("ed", "viewer", "acme")])
    with pytest.raises(ApprovalError):
        await approvals.decide(approval.id, Approve(), wrong)
    with pytest.raises(ApprovalError):
        await replace(bench).approvals().decide(approval.id, Approve(), EDITOR, thread_id="elsewhere")
    return "not permitted"
