"""Runs whose events come in any order, on two servers, with crashes and clock jumps:
the rules hold.
"""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from datasources.arango import ArangoDatabase, parse_address
from datasources.base import Database, Record
from datasources.mock import open_nba
from graphrag.agent.thread_store import (
    SESSION_KIND,
    StoredThread,
    ThreadBusy,
    read_thread,
    session_of,
    thread_write,
)
from graphrag.approvals import AlreadyDecided, Approve, ProposalExpired, Reject
from graphrag.automations.beginning import begin_run
from graphrag.automations.errors import AutomationRefused, SessionRefused
from graphrag.llm.base import Chunk
from graphrag.llm.errors import ModelUnauthorized, ModelUnreachable
from graphrag.sessions.machine import SessionEvent
from graphrag.sessions.phases import WAITING, EndReason, EventName, Phase
from tests.support.agents import EDITOR, GRAPH, REVIEWER
from tests.support.arango import ArangoServer
from tests.support.automations import DAY, HOUR, MINUTE, Night, finish, move, night_on
from tests.support.chosen_database import database_in
from tests.support.clock import MONDAY, Clock
from tests.support.databases import put_sample
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, call
from tests.support.waiting import until

EXAMPLES = int(os.environ.get("ANY_ORDER_EXAMPLES", "80"))
"""Of the slow test, over all stores."""
SHARES = {"memory": 0.5, "sqlite": 0.3, "arango": 0.2}
STEPS: dict[str, Callable[[int], Any]] = {
    "read": lambda _: Says(calls=[call("read_graph_overview")]),
    "propose": lambda n: Says(calls=[move(x=n)]),
    "both": lambda n: Says(calls=[call("list_node_edges", {"nodeKey": "root"}), move(x=n)]),
    "finish": lambda _: finish(),
    "propose and finish": lambda n: Says(calls=[move(x=n), *finish("findings", "Moved.").calls]),
    "words": lambda _: "All is well.",
    "away": lambda _: ModelUnreachable(provider="scripted", reason="refused"),
    "wrong key": lambda _: ModelUnauthorized(provider="scripted", reason="wrong"),
    "crash": lambda _: asyncio.CancelledError(),
}


class Improvising(ScriptedProvider):
    """A model that does next what `step` says; each proposal is another one."""

    step = "read"
    proposals = 0
    working = 0

    async def stream(self, *args: Any, **more: Any) -> AsyncGenerator[Chunk]:
        self.proposals += 1
        chosen = STEPS[self.step]
        number = 10 + self.proposals

        def said(_: Asked) -> Any:
            return chosen(number)

        self.working += 1
        try:
            assert self.working == 1, "two runs work on one graph"
            for _ in range(5):  # the other server has time to begin one, too
                await asyncio.sleep(0)
            self.play_instead(said)
            async for chunk in super().stream(*args, **more):
                yield chunk
        finally:
            self.working -= 1


class AnyOrder(RuleBasedStateMachine):
    """Two servers on one database, which `open` opens."""

    open: Callable[[], Database] = staticmethod(lambda: open_nba("default"))

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self.clock, self.model = Clock(MONDAY), Improvising()
        database = self.do(self._stack.enter_async_context(type(self).open()))  # type: ignore[arg-type]
        self.do(put_sample(database))
        self.servers = [night_on(database, self.model, clock=self.clock) for _ in range(2)]
        self.automations = [
            self.do(
                self.first.automation(
                    name=f"check {number}", cron="0 */6 * * *", only_if_changed=False
                )
            )
            for number in range(2)
        ]
        self.calls: Counter[str] = Counter()
        self.ended: dict[str, EndReason | None] = {}
        self.went_back = False
        self.began_at = self.do(self.place())

    @property
    def first(self) -> Night:
        return self.servers[0]

    def do(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    async def place(self) -> float:
        source = self.first.database.source("default")
        return (await source.get_nodes_by_key(GRAPH, ["root"]))[0].pos_x

    @rule(
        step=st.sampled_from(sorted(STEPS)),
        forward=st.sampled_from([0, MINUTE, HOUR, 6 * HOUR, 3 * DAY]),
    )
    def time_passes(self, step: str, forward: int) -> None:
        self.model.step = step
        self.clock.now += forward
        self.do(self.both())

    async def both(self) -> None:
        await asyncio.gather(*(self.a_while(server) for server in self.servers))

    async def a_while(self, server: Night) -> None:
        # Bounded: a model that proposes for ever is stopped by people, not by a test's patience.
        for _ in range(3):
            await server.scheduler.tick()
            await until(lambda: server.scheduler.is_idle)

    @rule(back=st.sampled_from([MINUTE, HOUR]))
    def the_clock_is_set_back(self, back: int) -> None:
        self.clock.now -= back
        self.went_back = True

    @rule(approve=st.booleans())
    def somebody_decides(self, approve: bool) -> None:
        waiting = self.do(self.first.approvals.list(status="pending", by=REVIEWER))
        if waiting:
            decision = Approve() if approve else Reject("no")
            with suppress(AlreadyDecided, ProposalExpired):
                self.do(self.first.approvals.decide(waiting[-1].id, decision, REVIEWER))
                self.first.scheduler.wake("default")

    @rule(which=st.sampled_from([0, 1]))
    def somebody_starts_one(self, which: int) -> None:
        self.clock.now += 1
        first = self.first
        key = self.automations[which].key
        stored = self.do(first.automations.get(key))
        if stored.enabled and not self.do(
            first.automations.sessions({"automationId": key, "open": True})
        ):
            self.do(
                begin_run(
                    first.approvals,
                    first.worker.runner.events,
                    stored,
                    self.clock.now,
                    trigger="manual",
                )
            )

    @rule(
        what=st.sampled_from(["stop", "resume", "end", "go on", "approve", "reject"]),
        twice=st.booleans(),
    )
    def somebody_steers_a_run(self, what: str, twice: bool) -> None:
        for run in self.runs()[:1]:
            for _ in range(1 + twice):
                with suppress(SessionRefused, AutomationRefused, ThreadBusy):
                    self.do(self.steered(what, run.thread.key))

    def steered(self, what: str, key: str) -> Any:
        control = self.first.control
        match what:
            case "stop":
                return control.stop(key, EDITOR)
            case "resume":
                return control.resume(key, EDITOR)
            case "end" | "go on":
                return control.confirm(key, EDITOR, end=what == "end")
            case _:
                return control.answer(key, REVIEWER, approved=what == "approve")

    @rule(name=st.sampled_from(list(EventName)), reason=st.sampled_from([None, *EndReason]))
    def an_event_comes_late_or_twice(self, name: EventName, reason: EndReason | None) -> None:
        for run in self.runs()[:1]:
            before = session_of(run.thread)
            event = SessionEvent(name=name, reason=reason)
            moved = before.after(event, self.first.worker.runner.limits, self.clock.now)
            assert (moved is None) or moved.state.kind is before.kind
            if before.phase is Phase.COMPLETED:
                assert moved is None, "without a slot nothing leads out of the end"

    def runs(self) -> list[StoredThread]:
        found = self.do(self.first.automations.sessions({}, limit=1_000))
        return [each for each in found if each.thread.key.startswith("auto/")]

    @invariant()
    def the_rules_hold(self) -> None:
        runs = self.runs()
        assert len({run.thread.key for run in runs}) == len(runs)
        for run in runs:
            session = session_of(run.thread)
            key = run.thread.key
            data = thread_write(SESSION_KIND, run.thread, run.version).data or {}
            record = Record(kind=SESSION_KIND, key=key, data=data, version=run.version)
            assert read_thread(record) == run, "what is stored is the state"
            assert (session.waiting is not None) == (session.phase in WAITING)
            assert session.roundtrips <= (session.roundtrip_limit or 0)
            assert session.roundtrips >= self.calls[key]
            self.calls[key] = session.roundtrips
            assert (session.end_reason is None) == (session.phase is not Phase.COMPLETED) or (
                session.end_reason is EndReason.SUSPENDED
            )
            assert (session.report is not None) or session.phase is not Phase.COMPLETED
            if self.ended.get(key) not in (None, EndReason.NETWORK_ERROR):
                assert session.end_reason is self.ended[key], "the end is final"
            self.ended[key] = session.end_reason if session.phase is Phase.COMPLETED else None
        self.the_queue_is_in_order(runs)
        self.only_decisions_change_the_graph()

    def the_queue_is_in_order(self, runs: list[StoredThread]) -> None:
        by_hand = [
            session_of(run.thread) for run in runs if session_of(run.thread).trigger == "manual"
        ]
        begun = sorted((s.queued_time or 0, s.started_time) for s in by_hand if s.started_time)
        started = [at for _, at in begun]
        assert self.went_back or started == sorted(started)

    def only_decisions_change_the_graph(self) -> None:
        applied = self.do(self.first.approvals.list(status="applied", by=REVIEWER))
        assert all(approval.decision is not None for approval in applied)
        moved = {approval.effective_action.payload.pos_x for approval in applied}
        assert self.do(self.place()) in (moved or {self.began_at})

    def teardown(self) -> None:
        self.do(self._stack.aclose())
        self._loop.close()


class OnSqlite(AnyOrder):
    @staticmethod
    def open() -> Database:
        folder = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        return database_in(Path(folder) / "any.db")


class OnArango(AnyOrder):
    server: ArangoServer
    name: str

    @classmethod
    def open(cls) -> Database:
        cls.server.empty(cls.name)
        return ArangoDatabase(parse_address(cls.server.address(cls.name, options="?timeout=300")))


def run(machine: type[AnyOrder], examples: int) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(machine, settings=chosen)


def test_the_rules_hold_in_any_order() -> None:
    run(AnyOrder, 2)


@pytest.mark.slow
def test_the_rules_hold_in_any_order_often() -> None:
    run(AnyOrder, round(EXAMPLES * SHARES["memory"]))


@pytest.mark.slow
def test_the_rules_hold_in_any_order_in_a_file() -> None:
    run(OnSqlite, round(EXAMPLES * SHARES["sqlite"]))


@pytest.mark.slow
def test_the_rules_hold_in_any_order_in_arangodb(arango: ArangoServer, one_database: str) -> None:
    OnArango.server = arango
    OnArango.name = one_database
    run(OnArango, round(EXAMPLES * SHARES["arango"]))
    arango.empty(one_database)
