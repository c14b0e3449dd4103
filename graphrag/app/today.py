"""What happened in the graphs of a person since they last looked: findings, proposals, runs,
decisions and costs. Each line has the address that opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from graphrag.agent.thread_store import Thread, session_of
from graphrag.answer_body import AnswerBody
from graphrag.app.usage_report import UsageStanding, limits_of
from graphrag.app.wiring import Services
from graphrag.approvals import Approval, title
from graphrag.approvals.approval import POLICY, SYSTEM
from graphrag.automations.automation import Automation
from graphrag.automations.automation_store import Automations
from graphrag.automations.findings import compare, findings_of
from graphrag.automations.last_seen import DAY_MS
from graphrag.automations.runner import FAILED_ENDS
from graphrag.i18n import Language
from graphrag.page_address import page_address
from graphrag.roles import Person
from graphrag.sessions.agent_session import AgentSession
from graphrag.sessions.phases import EndReason, Phase, SessionKind

R = TypeVar("R")

MAX_READ: Final = 1_000  # runs, automations and proposals of a workspace
MAX_DECIDED: Final = 300  # latest proposals in which decisions are looked for
MAX_LISTED: Final = 20  # findings of an automation of each kind
LONGEST_MS: Final = 31 * DAY_MS
FAILED: Final = FAILED_ENDS | {EndReason.NETWORK_ERROR}
WAITING: Final = frozenset((Phase.WAITING_NETWORK_RETRY, Phase.WAITING_COMMUNICATION_RESPONSE))

RunState = Literal["failed", "waits", "late", "skipped"]


class TodayRow(AnswerBody):
    """`address`: opens it in the page. Units: `time` in milliseconds since 1970."""

    workspace: str
    graph_key: str
    address: str
    time: int


class FindingsToday(TodayRow):
    """The latest report of an automation beside the one before: that of the last run which ended
    before the time since which is looked, else the run before. Compared by the words of the items
    of its list; at most 20 of each kind are listed. `isCompared`: there was one before.
    """

    automation_id: str
    name: str
    session_id: str
    is_compared: bool
    counts: dict[Literal["new", "same", "gone"], int]
    new: list[str]
    gone: list[str]


class ProposalToday(TodayRow):
    """A proposal that the person may decide."""

    approval_id: str
    title: str
    asker: str
    automation_id: str | None = None


class RunToday(TodayRow):
    """A run that failed or waits, or a time at which none began. `reason`: how it ended, what it
    waits for, or why it did not begin.
    """

    automation_id: str
    name: str
    state: RunState
    reason: str
    session_id: str | None = None


class DecisionToday(TodayRow):
    """A proposal that somebody else decided."""

    approval_id: str
    title: str
    status: str
    by: str


class CostToday(TodayRow):
    """What an automation used on its day, and its limits. Units: US dollars; None: unknown, or no
    limit.
    """

    automation_id: str
    name: str
    runs: int
    tokens: int
    cost_usd: float | None = None
    max_runs: int
    max_cost_usd: float | None = None


class Today(AnswerBody):
    """What happened between `since` and `now`. `more`: rows of each part that are not listed."""

    since: int
    now: int
    findings: list[FindingsToday]
    proposals: list[ProposalToday]
    runs: list[RunToday]
    decisions: list[DecisionToday]
    costs: list[CostToday]
    limits: list[UsageStanding]
    more: dict[Literal["findings", "proposals", "runs", "decisions", "costs"], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TodayPlace:
    """A workspace that is looked at, and the person who looks."""

    services: Services
    automations: Automations
    person: Person

    def sees_runs(self, owner: str) -> bool:
        return owner == self.person.user_id or self.person.at_least("reviewer")


@dataclass(slots=True)
class _TodayRows:
    findings: list[FindingsToday] = field(default_factory=list[FindingsToday])
    proposals: list[ProposalToday] = field(default_factory=list[ProposalToday])
    runs: list[RunToday] = field(default_factory=list[RunToday])
    decisions: list[DecisionToday] = field(default_factory=list[DecisionToday])
    costs: list[CostToday] = field(default_factory=list[CostToday])
    limits: list[UsageStanding] = field(default_factory=list[UsageStanding])


async def today(
    places: Sequence[TodayPlace],
    *,
    since: int,
    now: int,
    language: Language = "en",
    limit: int = 50,
) -> Today:
    """Returns what happened since a time, at most `limit` rows of each part, the latest first.

    Raises: SourceError.
    """
    since = max(since, now - LONGEST_MS)
    rows = _TodayRows()
    for place in places:
        await _TodayReading(place, since, now, language, limit, rows).read()
    rows.costs.sort(key=lambda row: -(row.cost_usd or 0))
    more: dict[Any, int] = {}

    def cut(name: str, part: list[R], order: Callable[[R], int] | None = None) -> list[R]:
        listed = sorted(part, key=order, reverse=True) if order else part
        if len(listed) > limit:
            more[name] = len(listed) - limit
        return listed[:limit]

    def latest(row: TodayRow) -> int:
        return row.time

    return Today(
        since=since,
        now=now,
        findings=cut("findings", rows.findings, lambda row: row.counts["new"] * now + row.time),
        proposals=cut("proposals", rows.proposals, latest),
        runs=cut("runs", rows.runs, latest),
        decisions=cut("decisions", rows.decisions, latest),
        costs=cut("costs", rows.costs),
        limits=rows.limits,
        more=more,
    )


@dataclass(slots=True)
class _TodayReading:
    """Reads one workspace."""

    place: TodayPlace
    since: int
    now: int
    language: Language
    limit: int
    rows: _TodayRows

    async def read(self) -> None:
        automations = await self.place.automations.list(limit=MAX_READ)
        runs = await self._runs()
        for thread in runs:
            self._note_run(thread)
        for automation in automations:
            self._note_missed(automation)
            self._note_cost(automation)
        await self._note_findings({one.key: one for one in automations}, runs)
        await self._note_proposals()
        self.rows.limits += await limits_of(self.place.services, self.place.person)

    async def _runs(self) -> list[Thread]:
        """Returns the runs that changed since then and those that are open, if the person sees
        them.
        """
        read = self.place.automations.sessions
        changed = await read(
            {}, order_by="lastUpdatedTime", at_least=self.since, descending=True, limit=MAX_READ
        )
        still_open = await read({"open": True}, limit=MAX_READ)
        by_key = {stored.thread.key: stored.thread for stored in (*changed, *still_open)}
        return [
            thread
            for thread in by_key.values()
            if session_of(thread).kind is SessionKind.AUTOMATION
            and self.place.sees_runs(thread.user_id)
        ]

    def _place_of(self, graph_key: str, time: int, **parts: str) -> dict[str, Any]:
        return {
            "workspace": self.place.person.workspace,
            "graph_key": graph_key,
            "address": page_address(graph_key, **parts),
            "time": time,
        }

    def _note_run(self, thread: Thread) -> None:
        session = session_of(thread)
        state = _state_of(session, self.since)
        if state is None:
            return
        shown, reason, time = state
        where = self._place_of(thread.graph_key, time, panel="automations", run=thread.key)
        self.rows.runs.append(
            RunToday(
                automation_id=session.automation_id,
                name=thread.title,
                state=shown,
                reason=reason,
                session_id=thread.key,
                **where,
            )
        )

    def _note_missed(self, automation: Automation) -> None:
        """Notes the times at which no run began, or not in time."""
        missed: list[tuple[RunState, str, int]] = []
        for time in automation.late_times:
            missed.append(("late", "late", time))
        for one in automation.skipped:
            if one.reason in ("missed", "budget", "all_paused", "workspace_budget"):
                missed.append(("skipped", one.reason, one.time))
        for state, reason, time in missed:
            if time < self.since:
                continue
            where = self._place_of(automation.graph_key, time, panel="automations")
            name = automation.name
            self.rows.runs.append(
                RunToday(
                    automation_id=automation.key, name=name, state=state, reason=reason, **where
                )
            )

    def _note_cost(self, automation: Automation) -> None:
        spent = automation.spent_on(self.now).sums()
        if not spent["runs"]:
            return
        where = self._place_of(automation.graph_key, self.now, panel="automations")
        self.rows.costs.append(
            CostToday(
                automation_id=automation.key,
                name=automation.name,
                runs=spent["runs"],
                tokens=spent["tokens"],
                cost_usd=spent["costUsd"],
                max_runs=automation.budget.day_runs,
                max_cost_usd=automation.budget.day_cost_usd,
                **where,
            )
        )

    async def _note_findings(
        self, automations: dict[str, Automation], runs: Iterable[Thread]
    ) -> None:
        """Compares the latest report of each automation that ended a run since then."""
        latest: dict[str, Thread] = {}
        for thread in runs:
            session = session_of(thread)
            other = latest.get(session.automation_id)
            ended = session.ended_time or 0
            if session.report is None or ended < self.since:
                continue
            if other is None or ended > (session_of(other).ended_time or 0):
                latest[session.automation_id] = thread
        for automation_id, thread in latest.items():
            before = await self._before(automation_id, thread)
            findings = findings_of(session_of(thread).report)
            earlier = findings_of(session_of(before).report) if before else []
            if findings or earlier:
                name = automations[automation_id].name if automation_id in automations else ""
                self._add_findings(thread, name or thread.title, findings, earlier, before)

    async def _before(self, automation_id: str, latest: Thread) -> Thread | None:
        """Returns the last run with a report that ended before the time since which is looked, else
        the one before `latest`.
        """
        stored = await self.place.automations.sessions(
            {"automationId": automation_id, "open": False}, limit=MAX_LISTED
        )
        others = [
            one.thread
            for one in stored
            if one.thread.key != latest.key and session_of(one.thread).report is not None
        ]
        ended = [one for one in others if (session_of(one).ended_time or 0) < self.since]
        return next(iter(ended or others), None)

    def _add_findings(
        self,
        thread: Thread,
        name: str,
        findings: Sequence[str],
        earlier: Sequence[str],
        before: Thread | None,
    ) -> None:
        compared = compare(findings, earlier)
        session = session_of(thread)
        time = session.ended_time or 0
        self.rows.findings.append(
            FindingsToday(
                automation_id=session.automation_id,
                name=name,
                session_id=thread.key,
                is_compared=before is not None,
                counts={
                    "new": len(compared.new),
                    "same": len(compared.same),
                    "gone": len(compared.gone),
                },
                new=list(compared.new[:MAX_LISTED]),
                gone=list(compared.gone[:MAX_LISTED]),
                **self._place_of(thread.graph_key, time, panel="automations", run=thread.key),
            )
        )

    async def _note_proposals(self) -> None:
        approvals, person = self.place.services.approvals, self.place.person
        for one in await approvals.list(status="pending", limit=MAX_READ, by=person):
            if approvals.objection(one.asker, person) is None:
                self.rows.proposals.append(
                    ProposalToday(
                        asker=one.asker,
                        automation_id=one.automation_id,
                        **self._of_proposal(one, one.created),
                    )
                )
        for one in await approvals.list(limit=MAX_DECIDED, by=person):
            decision = one.decision
            if decision is None or decision.at < self.since:
                continue
            if decision.by not in (person.user_id, SYSTEM, POLICY):
                self.rows.decisions.append(
                    DecisionToday(
                        status=one.status, by=decision.by, **self._of_proposal(one, decision.at)
                    )
                )

    def _of_proposal(self, approval: Approval, time: int) -> dict[str, Any]:
        where = self._place_of(approval.graph_key, time, panel="review", approval=approval.id)
        return {"approval_id": approval.id, "title": title(approval, self.language), **where}


def _state_of(session: AgentSession, since: int) -> tuple[RunState, str, int] | None:
    """Returns what is to be said of a run, why, and since when; None: nothing."""
    if session.phase is Phase.COMPLETED:
        ended, reason = session.ended_time or 0, session.end_reason
        if ended < since or reason is None:
            return None
        if reason in FAILED:
            return "failed", reason.value, ended
        if session.report is not None and session.report.outcome == "failed":
            return "failed", "REPORTED", ended
        return None
    if session.phase is Phase.WAITING_VALIDATION or session.phase in WAITING:
        return "waits", session.phase.value, session.last_event_time
    return None
