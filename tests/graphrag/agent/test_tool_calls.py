"""The execution guard: each call once, every call answered, nothing changed without a decision."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import pytest_asyncio

from datasources.base import MutableGraphDataSource
from datasources.errors import SourceTimeout
from datasources.mock import open_nba
from datasources.types import Mutation
from graphrag.agent.requested_calls import Answered, CallLimits, Requested
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.approvals import Approvals, Asked, Person
from graphrag.llm.base import ToolCall
from tests.support.agents import EDITOR, GRAPH, VIEWER
from tests.support.clock import Clock
from tests.support.scripted_provider import call
from tools.base import (
    DescribedArguments,
    Effect,
    Problem,
    Tool,
    ToolArguments,
    ToolContext,
    ToolResult,
    failure,
)
from tools.read_tools import READ_TOOLS
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS


class Nothing(ToolArguments):
    number: int = 0


class Bench:
    """The guard with a source, approvals, and tools of the test's own beside the real ones."""

    def __init__(self, source: MutableGraphDataSource, approvals: Approvals) -> None:
        self.source, self.approvals, self.clock = source, approvals, Clock(0)
        self.ran: list[str] = []
        self.extra: list[Tool[Any]] = []

    def tool(self, name: str, run: Any) -> None:
        async def counted(arguments: Nothing, context: ToolContext) -> ToolResult:
            self.ran.append(name)
            return await run(arguments, context)

        self.extra.append(Tool(name=name, description=name, arguments=Nothing, run=counted))

    def guard(self, **limits: Any) -> ToolCalls:
        box = ToolBox((*READ_TOOLS, *WRITE_TOOLS, *self.extra))
        return ToolCalls(box, self.approvals, limits=CallLimits(**limits), clock=self.clock)

    def place(self, by: Person, turn: int = 1, **more: Any) -> CallPlace:
        context = ToolContext(source=self.source, graph_key=GRAPH, role=by.role)
        return CallPlace(context=context, person=by, thread_id="t", turn=turn, model="m", **more)

    async def run(
        self,
        guard: ToolCalls,
        calls: Sequence[ToolCall],
        by: Person = EDITOR,
        turn: int = 1,
        **more: Any,
    ) -> list[Answered]:
        place = self.place(by, turn)
        asked = Requested(calls=calls, **more)
        found = [answered async for answered in guard.run(asked, place)]
        assert [answered.call for answered in found] == list(calls), (
            "each call is answered, in order"
        )
        return found


@pytest_asyncio.fixture
async def bench() -> AsyncGenerator[Bench]:
    async with open_nba("default") as database:
        source = database.source("default")
        yield Bench(source, Approvals(source, database.records("default")))


async def fine(arguments: Nothing, context: ToolContext) -> ToolResult:
    return ToolResult(text="fine")


async def test_reads_of_a_step_run_side_by_side(bench: Bench) -> None:
    both = asyncio.Barrier(2)

    async def meet(arguments: Nothing, context: ToolContext) -> ToolResult:
        await both.wait()  # one alone would wait for ever
        return ToolResult(text="met")

    bench.tool("one", meet)
    bench.tool("two", meet)
    answers = await bench.run(bench.guard(), [call("one"), call("two")])
    assert [answered.result.text for answered in answers] == ["met", "met"]


async def test_a_tool_that_takes_too_long_is_answered_so_and_harms_no_other(bench: Bench) -> None:
    async def hang(arguments: Nothing, context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    bench.tool("hang", hang)
    bench.tool("quick", fine)
    slow, quick = await bench.run(bench.guard(timeout_s=0.05), [call("hang"), call("quick")])
    assert "no result within 0.05 s" in slow.result.text
    assert slow.result.is_error
    assert quick.result.text == "fine"


async def test_a_tool_that_breaks_is_answered_without_its_words(bench: Bench) -> None:
    async def broken(arguments: Nothing, context: ToolContext) -> ToolResult:
        raise ZeroDivisionError("secret")

    bench.tool("broken", broken)
    bench.tool("quick", fine)
    answers = await bench.run(bench.guard(), [call("broken"), call("quick")])
    assert answers[0].result.is_error
    assert "secret" not in answers[0].result.text
    assert not answers[1].result.is_error


async def test_stopping_a_step_stops_its_reads(bench: Bench) -> None:
    begun = asyncio.Event()
    stopped = asyncio.Event()

    async def hang(arguments: Nothing, context: ToolContext) -> ToolResult:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    bench.tool("hang", hang)
    task = asyncio.create_task(bench.run(bench.guard(), [call("hang")]))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert stopped.is_set()


async def test_the_same_call_in_one_step_runs_once_however_it_is_written(bench: Bench) -> None:
    bench.tool("count", fine)
    same = [
        call("count", '{"number": 1}'),
        call("count", '{ "number":1 }'),
        call("count", '{"number": 2}'),
    ]
    answers = await bench.run(bench.guard(), same)
    assert bench.ran == ["count", "count"]
    assert answers[1].result.text == f"The same as call {same[0].id} of this step: see its result."


async def test_a_repeated_or_cut_off_call_never_runs(bench: Bench) -> None:
    bench.tool("count", fine)
    calls = [
        call("count", call_id="a"),
        call("count", '{"number": 2}', call_id="a_2"),
        call("count", '{"nu'),
    ]
    answers = await bench.run(bench.guard(), calls, repeated={"a_2"}, cut={calls[2].id})
    assert bench.ran == ["count"]
    assert "id that was used before" in answers[1].result.text
    assert "cut off" in answers[2].result.text


async def test_of_eleven_calls_ten_run_and_duplicates_do_not_count(bench: Bench) -> None:
    bench.tool("count", fine)
    calls = [call("count", {"number": number % 11}) for number in range(22)]
    answers = await bench.run(bench.guard(), calls)
    assert len(bench.ran) == 10
    assert [i for i, a in enumerate(answers) if "only 10 calls" in a.result.text] == [10, 21]


async def test_a_read_is_remembered_for_half_a_minute_and_by_thread_arguments_and_role(
    bench: Bench,
) -> None:
    bench.tool("count", fine)
    guard = bench.guard()
    for now, expected in ((0, 1), (29.9, 1), (30, 2), (31, 2)):
        bench.clock.now = now
        await bench.run(guard, [call("count")])
        assert len(bench.ran) == expected
    await bench.run(guard, [call("count", {"number": 5})])
    await bench.run(guard, [call("count")], by=VIEWER)
    assert len(bench.ran) == 4


async def test_a_change_of_the_graph_makes_what_was_read_old(bench: Bench) -> None:
    guard = bench.guard()
    read = call("read_node_detail", {"key": "root"})
    before = (await bench.run(guard, [read]))[0]
    node = (await bench.source.get_nodes_by_key(GRAPH, ["root"]))[0]
    await bench.source.apply(Mutation(graph_key=GRAPH, put_nodes=[node.replace(pos_x=777)]))
    after = (await bench.run(guard, [call("read_node_detail", {"key": "root"})]))[0]
    assert "777" in after.result.text
    assert "777" not in before.result.text


async def test_a_long_result_is_cut_for_the_model_and_whole_for_the_client(bench: Bench) -> None:
    async def long(arguments: Nothing, context: ToolContext) -> ToolResult:
        return ToolResult(text="x" * 50_000)

    bench.tool("long", long)
    guard = bench.guard(result_chars=1_000)
    answered = (await bench.run(guard, [call("long")]))[0]
    assert answered.message(guard.limits).content == "x" * 1_000 + "…+49000 chars"
    assert len(answered.event().result_text) == 50_000


async def test_proposals_are_kept_in_the_order_asked_with_their_reasons(bench: Bench) -> None:
    moves = [
        call(
            "propose_move_node",
            {"nodeKey": key, "posX": 1, "posY": 1, "reason": f"because of {key}"},
        )
        for key in ("root", "fetch-api")
    ]
    answers = await bench.run(bench.guard(), moves)
    kept = [answered.approval for answered in answers]
    assert [a.reason for a in kept if a] == ["because of root", "because of fetch-api"]
    assert [a.tool_call_id for a in kept if a] == [m.id for m in moves]
    assert {a.status for a in kept if a} == {"pending"}


class Slow:
    """Approvals whose store takes a while to answer; what it writes it has written."""

    def __init__(self, approvals: Approvals, *, hidden: bool = False) -> None:
        self._approvals = approvals
        self.hidden = hidden
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._approvals, name)

    async def propose(self, action: Any, asked: Asked) -> Any:
        self.writes += 1
        await self._approvals.propose(action, asked)
        await asyncio.Event().wait()

    async def list(self, **asked: Any) -> Any:
        return [] if self.hidden else await self._approvals.list(**asked)


MOVE = {"nodeKey": "root", "posX": 1, "posY": 1, "reason": "tidy"}


async def test_a_proposal_that_was_stored_although_storing_took_too_long_is_found(
    bench: Bench,
) -> None:
    slow = Slow(bench.approvals)
    guard = ToolCalls(ToolBox(WRITE_TOOLS), cast(Approvals, slow), limits=CallLimits(timeout_s=0.3))
    move = call("propose_move_node", MOVE)
    (answered,) = await bench.run(guard, [move])
    assert answered.approval.tool_call_id == move.id
    assert not answered.result.is_error
    assert slow.writes == 1


async def test_one_limit_holds_for_checking_and_storing_and_an_unsure_end_is_said_as_such(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(bench.approvals, hidden=True)
    guard = ToolCalls(ToolBox(WRITE_TOOLS), cast(Approvals, slow), limits=CallLimits(timeout_s=0.3))
    limits: list[float | None] = []
    real = asyncio.timeout

    def counted(seconds: float | None) -> asyncio.Timeout:
        limits.append(seconds)
        return real(seconds)

    monkeypatch.setattr(asyncio, "timeout", counted)
    (answered,) = await bench.run(guard, [call("propose_move_node", MOVE)])
    assert limits[0] == 0.3
    assert limits.count(0.3) == 1
    assert answered.unsure
    assert answered.approval is None
    assert "may appear later" in answered.result.text


async def test_the_same_failing_call_is_answered_shorter_until_its_error_is_another(
    bench: Bench,
) -> None:
    reasons = iter(
        ["no such node: a, b, c or d are there", "no such node: a, b, c or d are there", "gone"]
    )

    async def failing(arguments: Nothing, context: ToolContext) -> ToolResult:
        return failure("not_found", Problem(what=next(reasons)))

    bench.tool("look", failing)
    guard = bench.guard()
    texts = [(await bench.run(guard, [call("look", raw)]))[0].result for raw in ("{}", "{ }", "{}")]
    assert "a, b, c or d" in texts[0].text
    assert "unchanged: the same error" in texts[1].text
    assert texts[1].is_error
    assert "gone" in texts[2].text
    assert len(bench.ran) == 3


async def test_a_proposal_that_would_change_nothing_goes_back(bench: Bench) -> None:
    node = (await bench.source.get_nodes_by_key(GRAPH, ["root"]))[0]
    still = {"nodeKey": "root", "posX": node.pos_x, "posY": node.pos_y, "reason": "x"}
    answered = (await bench.run(bench.guard(), [call("propose_move_node", still)]))[0]
    assert answered.approval is None
    assert answered.result.is_error


class Shop:
    """Tools that act, and what they did, with the ids that were stored before."""

    def __init__(self, bench: Bench, effect: Effect = "acts", **more: Any) -> None:
        self.bench, self.stored, self.done = bench, list[str](), list[str]()
        self.answers: list[str] = []
        self.release, self.begun = asyncio.Event(), asyncio.Event()
        self.release.set()
        bench.extra.append(
            Tool(
                name="order",
                description="",
                arguments=DescribedArguments,
                parameters={"type": "object"},
                run=self.order,
                effect=effect,
                reusable=False,
                **more,
            )
        )

    async def order(self, arguments: DescribedArguments, context: ToolContext) -> ToolResult:
        self.done.append(f"begin {context.call_id}")
        self.begun.set()
        await self.release.wait()
        self.done.append(f"end {context.call_id}")
        return ToolResult(text="{}")

    async def begin(self, call_id: str) -> None:
        self.stored.append(call_id)

    async def end(self, answered: Answered) -> None:
        self.answers.append(answered.call.id)

    def place(self, **more: Any) -> CallPlace:
        return self.bench.place(VIEWER, begin_act=self.begin, end_act=self.end, **more)

    async def run(self, guard: ToolCalls, *ids: str, **more: Any) -> list[Answered]:
        calls = [call("order", {"item": 3}, call_id=call_id) for call_id in ids]
        return [a async for a in guard.run(Requested(calls=calls), self.place(**more))]


async def test_acts_run_in_order_each_stored_before_it_begins_and_none_from_memory(
    bench: Bench,
) -> None:
    shop = Shop(bench)
    guard = bench.guard()
    answers = await shop.run(guard, "a", "b") + await shop.run(guard, "c")
    assert [answered.outcome for answered in answers] == ["ok", "ok", "ok"], (
        "the same act twice is two acts"
    )
    assert shop.done == ["begin a", "end a", "begin b", "end b", "begin c", "end c"]
    assert shop.stored == ["a", "b", "c"]


async def test_reads_that_may_not_be_reused_run_each_time(bench: Bench) -> None:
    shop = Shop(bench, effect="read")
    guard = bench.guard()
    await shop.run(guard, "a")
    await shop.run(guard, "b")
    assert shop.done == ["begin a", "end a", "begin b", "end b"]
    assert shop.stored == [], "a read stores nothing"


async def test_an_act_is_never_run_twice_for_one_call_id_here_or_after_a_crash(
    bench: Bench,
) -> None:
    shop = Shop(bench)
    guard = bench.guard()
    await shop.run(guard, "a")
    again = await shop.run(guard, "a")
    after_crash = await shop.run(bench.guard(), "b", started=["b"])
    assert shop.done == ["begin a", "end a"]
    for answered in (*again, *after_crash):
        assert answered.outcome == "interrupted"
        said = json.loads(answered.result.text)
        assert said == {"success": False, "error": "interrupted; it may have been carried out"}


async def test_an_act_that_cannot_be_stored_as_begun_is_not_run(bench: Bench) -> None:
    shop = Shop(bench)

    async def refuse(call_id: str) -> None:
        raise SourceTimeout(source="test", seconds=1.0)

    place = replace(shop.place(), begin_act=refuse)
    with pytest.raises(SourceTimeout):
        await anext(bench.guard().run(Requested(calls=[call("order", {}, call_id="a")]), place))
    assert shop.done == []


async def test_an_act_that_began_is_finished_and_stored_before_a_cancelled_turn_ends(
    bench: Bench,
) -> None:
    shop = Shop(bench)
    shop.release.clear()
    turn = asyncio.create_task(shop.run(bench.guard(), "a", "b"))
    await shop.begun.wait()
    turn.cancel()
    await asyncio.sleep(0.01)
    assert not turn.done()
    shop.release.set()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert shop.done == ["begin a", "end a"], "and none is begun after it"
    assert shop.answers == ["a"]


async def test_the_time_of_a_tool_takes_the_place_of_the_limit(bench: Bench) -> None:
    shop = Shop(bench, timeout_s=0.01)
    shop.release.clear()
    (answered,) = await shop.run(bench.guard(timeout_s=100), "a")
    assert answered.outcome == "timeout"
