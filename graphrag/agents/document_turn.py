"""A turn of a conversation with an agent: what its tools read and change is stored with the thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from graphrag.agent.history import calls_of, unanswered
from graphrag.agent.reply import Reply
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_agent import AgentToolCall, ThreadAgent
from graphrag.agent.thread_store import TurnStatus
from graphrag.agents.chat_values import agent_part, said, store_values, with_part
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.deliveries import Deliveries
from graphrag.agents.toolbox import agent_role
from graphrag.llm.base import SystemMessage, ToolMessage, UserMessage
from tools.base import Role
from tools.http.executor import ToolOutcome
from tools.http.scope import ConversationValues, iso_time

MAX_LOGGED = 500
"""Tool calls that a conversation remembers: as many as a document may allow."""
NAME_CHARS = 100


@dataclass(slots=True, kw_only=True)
class DocumentTurn(RunningTurn):
    """`values` are what the tools read and change, `outcomes` what those that send requests gave, by call
    id. `deliveries` know what the API gave when the conversation began."""

    agent: CompiledAgent
    values: ConversationValues
    deliveries: Deliveries
    outcomes: dict[str, ToolOutcome] = field(default_factory=dict[str, ToolOutcome])

    @property
    def role(self) -> Role:
        return agent_role(self.agent, self.person.role)

    @property
    def part(self) -> ThreadAgent:
        return agent_part(self.stored.thread)

    @property
    def hung_up(self) -> bool:
        """Whether the agent ends the conversation with this turn."""
        return self.values.ctx.get("should_hangup") is True

    @property
    def is_over(self) -> bool:
        """Whether it ended the conversation with an answer."""
        return self.hung_up and bool(self.text.strip())

    def begin(self, context: SystemMessage | None, question: UserMessage, *, rounds: int) -> None:
        """Begin with the person's message; the chat may be idle for its whole time again."""
        now = self.threads.clock()
        self.stored = replace(self.stored, thread=said(self.stored.thread, self.agent, now))
        self.values.transcript.append(
            {"role": "user", "content": question.content, "timestamp": iso_time(now)}
        )
        RunningTurn.begin(self, context, question, rounds=rounds)

    async def save(self, status: TurnStatus, waits_for: Any = None) -> None:
        """Store the thread with the values of the conversation. Raises: ThreadBusy."""
        thread = store_values(self.stored.thread, self.values, self.threads.clock())
        self.stored = replace(self.stored, thread=thread)
        await RunningTurn.save(self, status, waits_for)

    async def take_start(self, wait_ms: int | None = None) -> None:
        """Put what the API gave at the beginning into ctx; `wait_ms` None: wait as long as it may take."""
        given = await self.deliveries.awaited(self.agent, self.stored.thread, wait_ms)
        if given is not None and not self.part.start_taken:
            self.values.ctx.update(given)
            self.stored = replace(self.stored, thread=with_part(self.stored.thread, start_taken=True))

    def accept(self, reply: Reply, writes: Callable[[str], bool]) -> Requested:  # noqa: ARG002 - a run asks it
        """Return the calls that the conversation has left; the others are answered."""
        calls, limit = reply.requested.calls, self.agent.document.limits.max_tool_calls
        left = max(0, limit - (len(calls_of(self.messages)) - len(calls)))
        refusal = self.phrase("calls_spent", calls=str(limit))
        self.messages += [
            ToolMessage(call_id=call.id, name=call.name, content=refusal, is_error=True)
            for call in calls[left:]
        ]
        return replace(reply.requested, calls=calls[:left])

    def answered(self, answered: Answered) -> bool:
        """Note what became of a call."""
        call, outcome = answered.call, self.outcomes.pop(answered.call.id, None)
        noted = AgentToolCall(
            tool_call_id=call.id,
            name=call.name[:NAME_CHARS],
            ok=not answered.result.is_error and (outcome is None or outcome.ok),
            ms=round(answered.ms),
            status=outcome.status if outcome else None,
        )
        self._log(noted)
        return False

    def answer_started(self) -> None:
        """Answer the calls that began to act in a turn that broke off; whether they did is not known."""
        for call in unanswered(self.messages):
            if call.id in self.state.started:
                self._log(AgentToolCall(tool_call_id=call.id, name=call.name[:NAME_CHARS]))
        RunningTurn.answer_started(self)

    def _log(self, call: AgentToolCall) -> None:
        tools = [*self.part.tools, call][-MAX_LOGGED:]
        self.stored = replace(self.stored, thread=with_part(self.stored.thread, tools=tools))
