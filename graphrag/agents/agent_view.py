"""State and health of an agent, as they follow from what is stored of it and of its conversations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from graphrag.agents.activity import AgentActivity
from graphrag.agents.agent_store import StoredAgent

State = Literal["stopped", "starting", "running", "draining", "failed"]
Health = Literal["ok", "degraded", "failed"]

MODEL_MS: Final = 300_000
_SHOWN: Final = {"name", "type", "channels", "graphs", "opening", "desired", "version", "source"} | {
    "created_time",
    "updated_time",
}
_FEW_CALLS, _ERROR_RATE = 5, 0.2


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


def view_of(agent: StoredAgent, activity: AgentActivity, now: int) -> AgentView:
    """Return an agent with its state and health."""
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
