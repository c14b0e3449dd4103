"""A store that fails, a graph that never rests, a caller that goes away: no approval is
left in doubt.
"""

import asyncio
import base64
import json
import lzma
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from datasources.base import Record
from datasources.errors import BadDocument, InvalidMutation, SourceTimeout
from datasources.types import Mutation
from graphrag.approvals import (
    Approval,
    ApprovalError,
    Approvals,
    Approve,
    Asked,
    Person,
    Reject,
    approval_context,
    outcome_text,
)
from graphrag.approvals.errors import ApprovalBusy, UndoRefused
from graphrag.llm.usage_meter import UsageLimitReached
from tests.contracts.samples import a_node
from tests.graphrag.approvals.helpers import (
    EDITOR,
    FLOW,
    OTHER_EDITOR,
    REVIEWER,
    STRANGER,
    VIEWER,
    Bench,
    a_bench,
)
from tests.support.waiting import cancelled
from tests.tools.proposing import make_graph
from tools.base import ToolContext
from tools.proposals import MalformedProposal
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

Apply = Callable[..., Awaitable[int]]


class Around:
    """A source whose `apply` goes through a function of the test."""

    def __init__(self, inner: Any, around: Callable[[Apply], Apply]) -> None:
        self._inner = inner
        self.apply = around(inner.apply)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def service(bench: Bench, around: Callable[[Apply], Apply]) -> Approvals:
    source: Any = Around(bench.source, around)
    return Approvals(source, bench.records, clock=bench.clock)


async def test_a_store_that_fails_before_applying_leaves_the_approval_pending() -> None:
    def failing(_: Apply) -> Apply:
        async def apply(*_args: Any, **_more: Any) -> int:
            raise SourceTimeout(source="the store", seconds=1)

        return apply

    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    before = await bench.state()
    with pytest.raises(SourceTimeout):
        await service(bench, failing).decide(approval.id, Approve(), EDITOR)
    assert (await bench.approvals().get(approval.id, EDITOR)).status == "pending"
    assert await bench.state() == before
    assert (await bench.approvals().decide(approval.id, Approve(), EDITOR)).status == "applied"


async def test_a_store_whose_answer_is_lost_after_applying_is_believed_by_its_records() -> None:
    def mute(apply: Apply) -> Apply:
        async def applied(*args: Any, **more: Any) -> int:
            await apply(*args, **more)
            raise SourceTimeout(source="the store", seconds=1)

        return applied

    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    revision = await bench.revision()
    assert (await service(bench, mute).decide(approval.id, Approve(), EDITOR)).status == "applied"
    assert await bench.revision() == revision + 1


async def test_a_store_that_refuses_the_change_fails_the_approval_with_the_reason() -> None:
    def refusing(_: Apply) -> Apply:
        async def apply(*_args: Any, **_more: Any) -> int:
            raise InvalidMutation(graph_key=FLOW, reason="no more room", keys=["b"])

        return apply

    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    failed = await service(bench, refusing).decide(approval.id, Approve(), EDITOR)
    assert failed.status == "failed"
    assert "no more room" in outcome_text(failed)


async def test_a_graph_that_changes_each_time_gives_the_approval_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approval_context, "ATTEMPTS", 3)
    bench = await a_bench()
    tries: list[int] = []

    def racing(apply: Apply) -> Apply:
        async def late(*args: Any, **more: Any) -> int:
            tries.append(1)
            await bench.source.apply(
                Mutation(graph_key=FLOW, put_nodes=[a_node(f"other{len(tries)}")])
            )
            return await apply(*args, **more)

        return late

    approval = await bench.propose("delete_node", nodeKey="b")
    with pytest.raises(ApprovalBusy):
        await service(bench, racing).decide(approval.id, Approve(), EDITOR)
    assert len(tries) == 3
    assert (await bench.approvals().get(approval.id, EDITOR)).status == "pending"
    assert await bench.source.get_nodes_by_key(FLOW, ["b"])


async def test_a_decision_is_carried_out_when_the_one_who_decided_goes_away(bench: Bench) -> None:
    entered = asyncio.Event()
    go_on = asyncio.Event()
    done = asyncio.Event()

    def slow(apply: Apply) -> Apply:
        async def held(*args: Any, **more: Any) -> int:
            entered.set()
            await go_on.wait()
            revision = await apply(*args, **more)
            done.set()
            return revision

        return held

    approval = await bench.propose("delete_node", nodeKey="b")
    deciding_task = asyncio.create_task(service(bench, slow).decide(approval.id, Approve(), EDITOR))
    await entered.wait()
    await cancelled(deciding_task)
    go_on.set()
    await done.wait()
    assert (await bench.approvals().get(approval.id, EDITOR)).status == "applied"


async def test_a_waiting_decision_whose_caller_goes_away_is_not_carried_out(bench: Bench) -> None:
    entered = asyncio.Event()
    go_on = asyncio.Event()

    def slow(apply: Apply) -> Apply:
        async def held(*args: Any, **more: Any) -> int:
            entered.set()
            await go_on.wait()
            return await apply(*args, **more)

        return held

    approvals = service(bench, slow)
    first, second = [await bench.propose("delete_node", nodeKey=key) for key in "bd"]
    working = asyncio.create_task(approvals.decide(first.id, Approve(), EDITOR))
    await entered.wait()
    waiting = asyncio.create_task(approvals.decide(second.id, Approve(), EDITOR))
    for _ in range(50):  # until it stands in the queue
        await asyncio.sleep(0)
    waiting.cancel()
    go_on.set()
    assert (await working).status == "applied"
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await bench.approvals().get(second.id, EDITOR)).status == "pending"


async def test_decisions_that_may_not_wait_are_refused_and_stay_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approval_context, "MAX_QUEUED", 2)
    bench = await a_bench()
    approvals = bench.approvals()
    made = [await bench.propose("create_node", typeKey="task", data={"n": n}) for n in range(4)]
    done = await asyncio.gather(
        *(approvals.decide(a.id, Approve(), EDITOR) for a in made), return_exceptions=True
    )
    refused = [a for a, found in zip(made, done, strict=True) if isinstance(found, ApprovalBusy)]
    assert len(refused) == 2
    assert (await approvals.decide(refused[0].id, Approve(), EDITOR)).status == "applied"


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), UsageLimitReached(limit="total_tokens", allowed=1, reached=2)]
)
async def test_nothing_that_runs_after_a_decision_makes_a_failure_of_it(error: Exception) -> None:
    bench = await a_bench()

    async def broken(_: Approval) -> None:
        raise error

    def broken_too(_: Approval) -> None:
        raise error

    for approvals in (bench.approvals(on_applied=broken), bench.approvals(on_decided=broken_too)):
        approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Other"})
        assert (await approvals.decide(approval.id, Approve(), EDITOR)).status == "applied"
        assert (await approvals.undo(FLOW, by=EDITOR)).status == "applied"


async def _altered(
    bench: Bench, approval_id: str, change: Callable[[dict[str, Any]], None]
) -> None:
    """Rewrite a stored approval, as somebody with the database in their hands could."""
    stored = await bench.records.get("approval", approval_id)
    document = orjson.loads(orjson.dumps(stored.data))
    change(document)
    await bench.records.put(
        Record(kind="approval", key=approval_id, data=document), expected_version=stored.version
    )


async def test_a_proposal_altered_in_the_database_is_not_carried_out(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="b")
    before = await bench.state()
    await _altered(bench, approval.id, lambda d: d["action"]["payload"].update(nodeKey="c"))
    failed = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert failed.status == "failed"
    assert "altered" in outcome_text(failed)
    assert await bench.state() == before


async def test_an_inverse_altered_in_the_database_is_not_applied(bench: Bench) -> None:
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Other"})
    await bench.approvals().decide(approval.id, Approve(), EDITOR)
    before = await bench.state()
    stored = await bench.records.get("undo", approval.id)
    content = orjson.loads(lzma.decompress(base64.b64decode(stored.data["content"])))
    content["inverse"]["putNodes"][0]["process"] = "steal()"
    packed = base64.b64encode(lzma.compress(orjson.dumps(content))).decode()
    planted = Record(kind="undo", key=approval.id, data={**stored.data, "content": packed})
    await bench.records.put(planted, expected_version=stored.version)
    with pytest.raises(UndoRefused, match="was altered"):
        await bench.approvals().undo(FLOW, by=EDITOR)
    assert await bench.state() == before


async def test_an_approval_of_a_newer_program_is_refused_by_name(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="b")
    await _altered(bench, approval.id, lambda d: d.update(schemaVersion=2))
    with pytest.raises(BadDocument, match="schemaVersion"):
        await bench.approvals().decide(approval.id, Approve(), EDITOR)


GRAPHS, CALLS = 50, 200
ATOMS: list[Any] = [
    None,
    True,
    -1,
    1e308,
    "",
    "b",
    "bc",
    "task",
    "$new",
    "\ud800",
    "x" * 500,
    "data.name",
]
NAMES = [
    "key",
    "sheet",
    "posX",
    "data",
    "process",
    "edges",
    "nodeKey",
    "typeKey",
    "changes",
    "__proto__",
]
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
    chance = random.Random(11)
    answers = Counter[str]()
    for _ in range(GRAPHS):
        bench = Bench(database=await make_graph())
        before = await bench.stored_bytes()
        revision = await bench.revision()
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
        await (
            replace(bench).approvals().decide(approval.id, Approve(), EDITOR, thread_id="elsewhere")
        )
    return "not permitted"
