"""Turns of a conversation with a declarative agent: the tools read and change stored values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

from graphrag.agent.chat_turn import ChatKind
from graphrag.agent.events import Event, TurnFault
from graphrag.agent.history import calls_of
from graphrag.agent.reply import Reply
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.thread_agent import AgentToolCall
from graphrag.agent.thread_store import Thread, TurnStatus
from graphrag.agent.turn import Turn
from graphrag.agents.chat_values import agent_part, said, store_values, with_part
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.deliveries import Deliveries
from graphrag.approvals import Approval, Approvals
from graphrag.llm.base import ToolCall
from tools.http.executor import HttpExecutor
from tools.http.scope import ConversationValues, iso_time
from tools.http.tool_run import ToolOutcome

MAX_LOGGED = 500  # tool calls that a conversation records; the limit that a document may set
NAME_CHARS = 100


@final
@dataclass(slots=True, kw_only=True)
class DocumentKind:
    """A `TurnKind` for one turn of a conversation with an agent.

    `thread`: as the turn found it. `values` are read and changed by the tools, and stored with the
    thread. `outcomes`: those of HTTP tools, by call id. `deliveries` have the API's answer to the
    start of the conversation.
    """

    agent: CompiledAgent
    thread: Thread
    values: ConversationValues
    deliveries: Deliveries
    executor: HttpExecutor
    outcomes: dict[str, ToolOutcome] = field(default_factory=dict[str, ToolOutcome])
    _start_taken: bool = False
    _chat: ChatKind = field(default_factory=ChatKind)

    @property
    def hung_up(self) -> bool:
        """Whether the agent ends the conversation with this turn."""
        return self.values.ctx.get("should_hangup") is True

    def take_message(self, turn: Turn, words: str) -> None:
        """Adds the person's message to the values, and starts the idle time of the chat again."""
        now = turn.threads.clock()
        turn.put_thread(said(turn.stored.thread, self.agent, now))
        entry = {"role": "user", "content": words, "timestamp": iso_time(now)}
        self.values.transcript.append(entry)

    async def take_start(self, wait_ms: int | None = None) -> None:
        """Puts the API's answer to the start of the conversation into ctx, once.

        Waits at most `wait_ms`; None: until it is there or failed.
        """
        if self._start_taken:
            return
        answer = await self.deliveries.awaited(self.agent, self.thread, wait_ms)
        if answer is not None and not self._start_taken:
            self.values.ctx.update(answer)
            self._start_taken = True

    async def save(self, turn: Turn, status: TurnStatus, waits_for: Any) -> None:
        """Stores the thread with the values of the conversation."""
        thread = store_values(turn.stored.thread, self.values, turn.threads.clock())
        turn.put_thread(with_part(thread, start_taken=True) if self._start_taken else thread)
        await turn.store(status, waits_for)

    def correct(self, turn: Turn, reply: Reply) -> bool | None:
        return self._chat.correct(turn, reply)

    def accept(self, turn: Turn, requested: Requested, _writes: Callable[[str], bool]) -> Requested:
        """Returns the calls within the conversation's limit of tool calls."""
        calls = requested.calls
        limit = self.agent.document.limits.max_tool_calls
        left = max(0, limit - (len(calls_of(turn.messages)) - len(calls)))
        turn.conversation.refuse("calls_spent", calls[left:], calls=str(limit))
        return replace(requested, calls=calls[:left])

    def record_call(self, turn: Turn, call: ToolCall, answered: Answered | None) -> bool:
        """Adds a call to the record of the conversation."""
        outcome = self.outcomes.pop(call.id, None)
        record = AgentToolCall(tool_call_id=call.id, name=call.name[:NAME_CHARS])
        if answered is not None:
            if outcome is None:  # it sent no request, so its run is not reported yet
                done = ToolOutcome(
                    value=None, ok=not answered.result.is_error, ms=round(answered.ms)
                )
                self.executor.report(call.name, call.arguments, self.values, done)
            record = AgentToolCall(
                tool_call_id=call.id,
                name=call.name[:NAME_CHARS],
                ok=not answered.result.is_error and (outcome is None or outcome.ok),
                ms=round(answered.ms),
                status=outcome.status if outcome else None,
            )
        tools = [*agent_part(turn.stored.thread).tools, record][-MAX_LOGGED:]
        turn.put_thread(with_part(turn.stored.thread, tools=tools))
        return False

    async def end_step(
        self, turn: Turn, approvals: Approvals, proposals: list[Approval]
    ) -> tuple[list[Event], list[Approval]]:
        return await self._chat.end_step(turn, approvals, proposals)

    def final_text(self, turn: Turn) -> str | None:
        """Returns the text of a turn in which the agent hung up, once it said something."""
        text = turn.text
        return text if self.hung_up and text.strip() else None

    async def stop(self, turn: Turn, reason: str | None) -> None:
        await self._chat.stop(turn, reason)

    async def fail(self, turn: Turn, fault: TurnFault) -> None:
        await self._chat.fail(turn, fault)
