"""The agent of one conversation with a declarative agent: the loop of every agent, with the
document's prompt, tools, model and bounds.

Decision: it is made for one turn, because its tools read and change the values of one conversation.
What they change is stored with the thread before the model sees it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from datasources.errors import SourceError
from graphrag.agent.events import Completed, Ending, Failed
from graphrag.agent.history import calls_of, unanswered
from graphrag.agent.loop import Agent
from graphrag.agent.reply import Reply
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.session_turn import NETWORK_CODES
from graphrag.agent.thread_agent import AgentToolCall, ThreadAgent
from graphrag.agent.thread_store import StoredThread, ThreadBusy, TurnStatus
from graphrag.agent.turn_lease import TurnLease
from graphrag.agent.turn_steps import AgentLimits
from graphrag.agents.agent_prompt import write_agent_prompt
from graphrag.agents.chat_values import agent_part, said, store_values, values_of, with_part
from graphrag.agents.compiled_agent import CompiledAgent, graphs_of
from graphrag.agents.deliveries import Deliveries
from graphrag.agents.errors import AgentError, ThreadEnded
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.agents.session_fields import InlineSession
from graphrag.agents.toolbox import AgentTools, agent_role
from graphrag.approvals import Person
from graphrag.i18n import Language
from graphrag.llm.base import LLMProvider, SystemMessage, UserMessage
from graphrag.llm.registry import Pricing
from tools.base import Role
from tools.http.executor import ToolOutcome
from tools.http.scope import ConversationValues, iso_time
from tools.http.tool import Declaration

log = logging.getLogger(__name__)

MAX_LOGGED = 500
"""Tool calls that a conversation remembers: as many as a document may allow."""
NAME_CHARS = 100


@dataclass(slots=True, kw_only=True)
class DocumentTurn(RunningTurn):
    """`values` are what the tools read and change, `outcomes` what those that send requests gave,
    by call id. `deliveries` know what the API gave when the conversation began.
    """

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
        """Put what the API gave at the beginning into ctx; `wait_ms` None: wait as long as
        it may take.
        """
        given = await self.deliveries.awaited(self.agent, self.stored.thread, wait_ms)
        if given is not None and not self.part.start_taken:
            self.values.ctx.update(given)
            self.stored = replace(
                self.stored, thread=with_part(self.stored.thread, start_taken=True)
            )

    def accept(self, reply: Reply, writes: Callable[[str], bool]) -> Requested:  # noqa: ARG002 - a run asks it
        """Return the calls that the conversation has left; the others are answered."""
        calls = reply.requested.calls
        limit = self.agent.document.limits.max_tool_calls
        left = max(0, limit - (len(calls_of(self.messages)) - len(calls)))
        self.refuse("calls_spent", calls[left:], calls=str(limit))
        return replace(reply.requested, calls=calls[:left])

    def answered(self, answered: Answered) -> bool:
        """Note what became of a call."""
        call = answered.call
        outcome = self.outcomes.pop(answered.call.id, None)
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
        """Answer the calls that began to act in a turn that broke off; whether they
        did is not known.
        """
        for call in unanswered(self.messages):
            if call.id in self.state.started:
                self._log(AgentToolCall(tool_call_id=call.id, name=call.name[:NAME_CHARS]))
        RunningTurn.answer_started(self)

    def _log(self, call: AgentToolCall) -> None:
        tools = [*self.part.tools, call][-MAX_LOGGED:]
        self.stored = replace(self.stored, thread=with_part(self.stored.thread, tools=tools))


class DocumentAgent(Agent):
    """Takes up one turn of a conversation with an agent."""

    def __init__(
        self,
        compiled: CompiledAgent,
        agents: AgentManager,
        life: AgentLife,
        provider: LLMProvider,
        pricing: Pricing,
        **of_agent: Any,
    ) -> None:
        rounds = compiled.document.chat.max_rounds
        super().__init__(**of_agent, limits=AgentLimits(rounds=rounds, max_rounds=rounds))
        self._compiled = compiled
        self._agents = agents
        self._life = life
        self._provider = provider
        self._pricing = pricing
        self.turn: DocumentTurn | None = None
        """The turn, once it is taken up."""

    def _turn_of(
        self, stored: StoredThread, person: Person, language: Language, hold: TurnLease
    ) -> RunningTurn:
        """Return the turn, with the tools of its conversation as that stands
        now. Raises: ThreadEnded.
        """
        part = agent_part(stored.thread)
        compiled = self._compiled
        if not part.is_open:
            raise ThreadEnded(thread_id=stored.thread.key)
        turn = DocumentTurn(
            self._threads,
            stored,
            stored.thread.messages,
            person,
            language,
            hold,
            agent=compiled,
            values=values_of(compiled, stored.thread, self._life.locale),
            deliveries=self._life.deliveries,
        )
        if not turn.graph_key:
            turn.always_sent = ()
        graphs = graphs_of(compiled, turn.graph_key)
        box = AgentTools(
            agent=compiled,
            declarations=declarations_of(compiled, part),
            values=turn.values,
            executor=self._agents.executor(compiled.agent_id),
            take_start=turn.take_start,
            graphs=graphs,
            proposes=turn.role == "editor",
            outcomes=turn.outcomes,
        ).box()
        temperature = compiled.document.chat.temperature
        self._caller = self._caller.with_tools(
            box, self._provider, self._pricing, temperature=temperature
        )
        self._calls = self._calls.with_tools(box, graphs)
        self.turn = turn
        return turn

    async def finished(self, last: Ending) -> Ending:
        """Return the last event; a conversation that its agent ended in the turn
        is ended before.
        """
        if isinstance(last, Failed) and last.fault.code in NETWORK_CODES:
            with suppress(AgentError, SourceError):  # it is for the agent's health only
                await self._agents.model_failed(self._compiled.agent_id)
        if not isinstance(last, Completed) or self.turn is None or not self.turn.hung_up:
            return last
        try:
            thread = await self._life.endings.end(last.thread_id, "agent_hung_up")
        except (ThreadBusy, SourceError) as exc:  # it is found again: its time is over
            log.warning(
                "end_put_off", extra={"thread_id": last.thread_id, "error": type(exc).__name__}
            )
            return last
        part = None if thread is None else thread.agent
        return (
            last
            if part is None
            else replace(last, end_reason=part.end_reason, outcome=part.outcome)
        )

    async def _open(self, turn: RunningTurn, said: UserMessage) -> None:
        assert isinstance(turn, DocumentTurn)
        await turn.take_start(wait_ms=0)
        if not any(
            isinstance(message, SystemMessage) and message.stable for message in turn.messages
        ):
            turn.messages.insert(0, await self._instructions(turn))
        if turn.graph_key:
            await super()._open(turn, said)
        else:
            turn.begin(None, said, rounds=self.limits.rounds)

    async def _instructions(self, turn: RunningTurn) -> SystemMessage:
        assert isinstance(turn, DocumentTurn)
        proposes = turn.role == "editor" and bool(turn.graph_key)
        return await write_agent_prompt(
            self._source,
            turn.agent,
            turn.part.instructions,
            about=turn.graph_key,
            proposes=proposes,
            code=turn.values.agent["language"],
            language=turn.language,
        )


def declarations_of(agent: CompiledAgent, part: ThreadAgent) -> list[Declaration]:
    """Return how the functions of a conversation are declared: in the document, or where
    it was fetched.
    """
    session = agent.document.session
    written = [
        each.model_dump() for each in (session.tools if isinstance(session, InlineSession) else ())
    ]
    found = written if part.declarations is None else part.declarations
    handlers = agent.document.tools
    return [
        Declaration(
            name=each["name"],
            description=each.get("description") or handlers[each["name"]].description,
            parameters=each.get("parameters") or {"type": "object", "properties": {}},
        )
        for each in found
        if each["name"] in handlers
    ]
