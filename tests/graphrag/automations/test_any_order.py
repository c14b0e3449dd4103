"""Runs whose events come in any order, on two servers, with crashes and clock jumps: the rules hold."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from datasources.mock import open_nba
from graphrag.approvals import AlreadyDecided, Approve, ProposalExpired, Reject
from graphrag.llm.base import Chunk
from graphrag.llm.errors import ModelUnauthorized, ModelUnreachable
from graphrag.sessions.machine import ACTIVE, WAITING, EndReason, EventName, Phase, SessionEvent
from tests.support.agents import GRAPH, REVIEWER
from tests.support.automations import DAY, HOUR, MINUTE, MONDAY, Clock, Night, finish, move, night_on, until
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, call

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

    async def stream(self, *args: Any, **more: Any) -> AsyncGenerator[Chunk]:
        self.proposals += 1
        chosen, number = STEPS[self.step], 10 + self.proposals

        def said(_: Asked) -> Any:
            return chosen(number)

        self.play_instead(said)
        async for chunk in super().stream(*args, **more):
            yield chunk


class AnyOrder(RuleBasedStateMachine):
    """Two servers on one database."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self.clock, self.model = Clock(MONDAY), Improvising()
        database = self.do(self._stack.enter_async_context(open_nba("default")))
        self.servers = [night_on(database, self.model, clock=self.clock) for _ in range(2)]
        for number in range(2):
            self.do(self.first.automation(name=f"check {number}", cron="0 */6 * * *", only_if_changed=False))
        self.calls: Counter[str] = Counter()

    @property
    def first(self) -> Night:
        return self.servers[0]

    def do(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    @rule(step=st.sampled_from(sorted(STEPS)), forward=st.sampled_from([0, MINUTE, HOUR, 6 * HOUR, 3 * DAY]))
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

    @rule(approve=st.booleans())
    def somebody_decides(self, approve: bool) -> None:
        waiting = self.do(self.first.approvals.list(status="pending", by=REVIEWER))
        if waiting:
            decision = Approve() if approve else Reject("no")
            try:
                self.do(self.first.approvals.decide(waiting[-1].id, decision, REVIEWER))
            except (AlreadyDecided, ProposalExpired):
                return
            self.first.scheduler.wake("default")

    @rule(name=st.sampled_from(list(EventName)), reason=st.sampled_from([None, *EndReason]))
    def an_event_comes_late_or_twice(self, name: EventName, reason: EndReason | None) -> None:
        for run in self.do(self.first.automations.sessions({"open": True}))[:1]:
            before = run.thread.session
            event = SessionEvent(name=name, reason=reason)
            moved = before.after(event, self.first.worker.runner.limits, self.clock.now)
            assert (moved is None) or moved[0].kind is before.kind

    @invariant()
    def the_rules_hold(self) -> None:
        found = [each.thread for each in self.do(self.first.automations.sessions({}, limit=1_000))]
        runs = [each for each in found if each.key.startswith("auto/")]
        assert len({run.key for run in runs}) == len(runs)
        working = 0
        for run in runs:
            session = run.session
            assert session is not None
            assert (session.waiting is not None) == (session.phase in WAITING)
            assert session.roundtrips <= 20
            assert session.roundtrips >= self.calls[run.key]
            self.calls[run.key] = session.roundtrips
            assert (session.end_reason is None) == (session.phase is not Phase.COMPLETED) or (
                session.end_reason is EndReason.SUSPENDED
            )
            assert (session.report is not None) or session.phase is not Phase.COMPLETED
            working += session.phase in ACTIVE and session.end_reason is None
        # A run whose process ended stays as it was stored until it is taken up.
        assert working <= 2
        node = self.do(self.first.database.source("default").get_nodes_by_key(GRAPH, ["root"]))[0]
        applied = self.do(self.first.approvals.list(status="applied", by=REVIEWER))
        moved = {approval.effective_action.payload.pos_x for approval in applied}  # type: ignore[union-attr]
        assert node.pos_x in moved or not moved

    def teardown(self) -> None:
        self.do(self._stack.aclose())
        self._loop.close()


def run(machine: type[AnyOrder], examples: int) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.slow
def test_the_rules_hold_in_any_order() -> None:
    run(AnyOrder, 4)


@pytest.mark.slow
def test_the_rules_hold_in_any_order_often() -> None:
    run(AnyOrder, 400)
