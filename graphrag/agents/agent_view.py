"""State, health and activity of an agent: they follow from what is stored of it and of its conversations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from datasources.base import Record, RecordStore
from graphrag.agents.agent_store import StoredAgent

State = Literal["stopped", "starting", "running", "draining", "failed"]
Health = Literal["ok", "degraded", "failed"]

MODEL_MS: Final = 300_000
_SHOWN: Final = {"name", "type", "channels", "graphs", "opening", "desired", "version", "source"} | {
    "created_time",
    "updated_time",
}
_FEW_CALLS, _ERROR_RATE = 5, 0.2
RECENT_MS: Final = 3_600_000
LATE_MS: Final = 600_000
CALLS: Final = 20
_OPEN, _RECENT, _DELIVERIES = 500, 200, 1_000


@dataclass(slots=True, kw_only=True)
class AgentActivity:
    """Open conversations of an agent, its last tool calls (newest first, True: done), late deliveries."""

    open: int = 0
    calls: list[bool] = field(default_factory=list[bool])
    late_deliveries: int = 0

    @property
    def error_rate(self) -> float:
        return self.calls.count(False) / len(self.calls) if self.calls else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """An agent as lists show it. `reasons`: codes of why its health is not ok."""

    agent: StoredAgent
    state: State
    health: Health
    reasons: tuple[str, ...]
    activity: AgentActivity

    def to_document(self) -> dict[str, Any]:
        """Return what clients are sent."""
        agent, check = self.agent, self.agent.check
        return {
            "id": agent.agent_id,
            **agent.model_dump(mode="json", by_alias=True, include=_SHOWN),
            "state": self.state,
            "health": self.health,
            "reasons": list(self.reasons),
            "problems": list(check.problems) if check is not None and agent.desired == "running" else [],
            "calls": self.activity.open,
        }


def view_of(agent: StoredAgent, activity: AgentActivity | None, now: int) -> AgentView:
    """Return an agent with its state and health; `activity` None: it does nothing."""
    activity = activity or AgentActivity()
    state = state_from(agent, activity.open)
    reasons: list[str] = []
    if agent.desired == "running":
        reasons += sorted({str(each.get("code")) for each in (agent.check.problems if agent.check else ())})
        if now - agent.model_failed_time < MODEL_MS:
            reasons.append("model_unreachable")
    if activity.late_deliveries:
        reasons.append("deliveries_late")
    if len(activity.calls) >= _FEW_CALLS and activity.error_rate > _ERROR_RATE:
        reasons.append("tools_failing")
    health: Health = "failed" if state == "failed" else "degraded" if reasons else "ok"
    return AgentView(agent=agent, state=state, health=health, reasons=tuple(reasons), activity=activity)


def runs(agent: StoredAgent) -> bool:
    """Whether new conversations begin with an agent."""
    return state_from(agent, 0) == "running"


def state_from(agent: StoredAgent, open_conversations: int) -> State:
    """Return the state that follows from what is stored."""
    if agent.desired == "stopped":
        return "draining" if open_conversations else "stopped"
    if agent.check is None or agent.check.version != agent.version:
        return "starting"
    return "running" if agent.check.ok else "failed"


async def open_conversations(records: RecordStore, agent_id: str, *, limit: int = _OPEN) -> int:
    """Return how many conversations of an agent are open, at most `limit`."""
    return len(await records.query("thread", {"agentId": agent_id, "agentOpen": True}, limit=limit))


async def read_activity(records: RecordStore, now: int) -> Mapping[str, AgentActivity]:
    """Return what agents do, by id; one that does nothing is left out.

    Read from the database and not counted in a process: every server and the command line say the same.
    """
    open_ones = await records.query("thread", {"agentOpen": True}, limit=_OPEN)
    recent = await records.query(
        "thread", order_by="lastUpdatedTime", at_least=now - RECENT_MS, descending=True, limit=_RECENT
    )
    owed = await records.query("delivery", {"status": "waiting"}, limit=_DELIVERIES)
    found: defaultdict[str, AgentActivity] = defaultdict(AgentActivity)
    for thread in open_ones:
        found[str(thread.data.get("agentId"))].open += 1
    for agent_id, is_done in _calls(recent):
        if len(found[agent_id].calls) < CALLS:
            found[agent_id].calls.append(is_done)
    for delivery in owed:
        if int(delivery.data.get("createdTime", now)) < now - LATE_MS:
            found[str(delivery.data.get("agentId"))].late_deliveries += 1
    return dict(found)


def _calls(threads: Iterable[Record]) -> Iterable[tuple[str, bool]]:
    """Yield agent and success of each logged tool call, the newest conversation's last call first."""
    for thread in threads:
        agent = cast(dict[str, Any], thread.data.get("agent") or {})
        for call in reversed(cast(list[dict[str, Any]], agent.get("tools") or [])[-CALLS:]):
            if call.get("ok") is not None:
                yield str(agent.get("agentId")), bool(call["ok"])
