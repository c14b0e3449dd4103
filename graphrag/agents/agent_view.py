"""State, health and activity of an agent, derived from stored agents and conversations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast, final

from datasources.base import Record, RecordStore
from graphrag.agents.agent_store import Desired, StoredAgent
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.agents.voice_fields import VoiceEngine
from graphrag.answer_body import AnswerBody
from tools.http.problems import DocumentProblem

State = Literal["stopped", "starting", "running", "draining", "failed"]
Health = Literal["ok", "degraded", "failed"]

MODEL_MS: Final = 300_000
_FEW_CALLS, _ERROR_RATE = 5, 0.2
RECENT_MS: Final = 3_600_000
LATE_MS: Final = 600_000
CALLS: Final = 20
_OPEN, _RECENT, _DELIVERIES = 500, 200, 1_000


@final
@dataclass(slots=True, kw_only=True)
class AgentActivity:
    """Open conversations of an agent, its last tool calls (newest first, True: succeeded), late
    deliveries.
    """

    open: int = 0
    calls: list[bool] = field(default_factory=list[bool])
    late_deliveries: int = 0


@final
class AgentSummary(AnswerBody):
    """An agent. `desired` is what it should do, `state` what it does, `reasons` why `health`
    is not ok.

    `model_error`: what the service of its model refused in the last minutes.
    `engine`: what answers its calls. `calls`: open conversations.
    `source`: the list that it is kept in step with.
    """

    id: str
    name: str
    type: str
    channels: list[Literal["chat", "voice"]]
    engine: VoiceEngine
    graphs: list[str]
    opening: str | None = None
    state: State
    health: Health
    reasons: tuple[str, ...]
    problems: tuple[DocumentProblem, ...]
    model_error: ModelRefusal | None = None
    desired: Desired
    version: int
    calls: int
    source: str | None = None
    created_time: int
    updated_time: int

    def to_document(self) -> dict[str, Any]:
        """Returns the form of the command line, with empty fields."""
        return self.model_dump(mode="json", by_alias=True)


def summary_of(agent: StoredAgent, activity: AgentActivity | None, now: int) -> AgentSummary:
    """Returns an agent with its state and health; `activity` None: it has no activity."""
    activity = activity or AgentActivity()
    state = state_from(agent, activity.open)
    problems = (
        agent.check.problems if agent.check is not None and agent.desired == "running" else ()
    )
    reasons = sorted({each.code for each in problems})
    failed = agent.desired == "running" and now - agent.model_failed_time < MODEL_MS
    if failed:
        reasons.append("model_unreachable" if agent.model_error is None else "model_refused")
    if activity.late_deliveries:
        reasons.append("deliveries_late")
    calls = activity.calls
    if len(calls) >= _FEW_CALLS and calls.count(False) > _ERROR_RATE * len(calls):
        reasons.append("tools_failing")
    found = {
        "id": agent.agent_id,
        "state": state,
        "health": "failed" if state == "failed" else "degraded" if reasons else "ok",
        "reasons": reasons,
        "problems": problems,
        "model_error": agent.model_error if failed else None,
        "calls": activity.open,
    }
    return AgentSummary.model_validate({**agent.model_dump(exclude={"versions", "check"}), **found})


def runs(agent: StoredAgent) -> bool:
    """Whether new conversations may begin with an agent."""
    return state_from(agent, 0) == "running"


def state_from(agent: StoredAgent, open_conversations: int) -> State:
    """Returns the state of a stored agent."""
    if agent.desired == "stopped":
        return "draining" if open_conversations else "stopped"
    if agent.check is None or agent.check.version != agent.version:
        return "starting"
    return "running" if agent.check.ok else "failed"


async def open_conversations(records: RecordStore, agent_id: str, *, limit: int = _OPEN) -> int:
    """Returns the number of an agent's open conversations, at most `limit`."""
    return len(await records.query("thread", {"agentId": agent_id, "agentOpen": True}, limit=limit))


async def read_activity(records: RecordStore, now: int) -> Mapping[str, AgentActivity]:
    """Returns the activity of agents by id; those without activity are left out.

    It is read from the database, so that every server and the command line agree.
    """
    open_ones = await records.query("thread", {"agentOpen": True}, limit=_OPEN)
    recent = await records.query(
        "thread",
        order_by="lastUpdatedTime",
        at_least=now - RECENT_MS,
        descending=True,
        limit=_RECENT,
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
    """Yields agent and success of each logged tool call, newest first."""
    for thread in threads:
        agent = cast(dict[str, Any], thread.data.get("agent") or {})
        for call in reversed(cast(list[dict[str, Any]], agent.get("tools") or [])[-CALLS:]):
            if call.get("ok") is not None:
                yield str(agent.get("agentId")), bool(call["ok"])
