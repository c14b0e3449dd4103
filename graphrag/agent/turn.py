"""One turn: its conversation, its state, and what is stored of it.

A turn is stored after every step, perhaps with calls that wait for an answer. Who takes the thread
up again first calls `turn_outcomes.collect_outcomes`, which answers them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, final

from graphrag.agent import history
from graphrag.agent.events import (
    Completed,
    Ending,
    Event,
    PendingQuestion,
    ProposalPending,
    QuestionAsked,
    ToolFinished,
    ToolLimit,
    TurnFault,
    TurnStarted,
    UsageReported,
    in_words,
    no_question,
)
from graphrag.agent.reply import Reply
from graphrag.agent.requested_calls import Answered, CallLimits, Requested
from graphrag.agent.thread_store import StoredThread, StoredTurn, Thread, Threads, TurnStatus
from graphrag.agent.turn_conversation import TurnConversation
from graphrag.agent.turn_lease import TurnLease
from graphrag.agent.turn_trace import TurnTrace
from graphrag.approvals import CHAT_SESSION, Approval, Approvals, Person, ProposingSession
from graphrag.i18n import Language
from graphrag.llm.base import (
    TOKENS,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    UserMessage,
)
from graphrag.llm.usage_meter import CallUsage, Payer
from graphrag.prompts import RunFacts
from graphrag.retrieval.prepared_prompt import PreparedPrompt
from graphrag.sessions.agent_session import SessionUsage
from graphrag.sessions.periods import Calendar
from tools.base import NO_FEATURES, Role
from tools.session_tools import Response


class TurnKind(Protocol):
    """Differences between turns of a chat, of a declarative agent, and of an automation's run."""

    async def save(self, turn: Turn, status: TurnStatus, waits_for: Any, /) -> None:
        """Calls `turn.store` with the status and the interrupt of this kind of turn."""
        ...

    def correct(self, turn: Turn, reply: Reply, /) -> bool | None:
        """Tells the model what is wrong with an answer without tool calls.

        Returns whether it may call tools in its next answer; None if this answer is accepted.
        """
        ...

    def accept(
        self, turn: Turn, requested: Requested, writes: Callable[[str], bool], /
    ) -> Requested:
        """Returns the calls to run, and answers the others. `writes`: whether a tool proposes."""
        ...

    def record_call(self, turn: Turn, call: ToolCall, answered: Answered | None, /) -> bool:
        """Records the result of a call. `answered` is None if a process ended during the call.

        Returns True if the answer is held back until the step is over.
        """
        ...

    async def end_step(
        self, turn: Turn, approvals: Approvals, proposals: list[Approval], /
    ) -> tuple[list[Event], list[Approval]]:
        """Ends a step that made `proposals`, and applies those that policy allows.

        Returns the events, and the proposals that wait for a person.
        """
        ...

    def final_text(self, turn: Turn, /) -> str | None:
        """Returns the text of a turn that is complete without another answer of the model."""
        ...

    async def stop(self, turn: Turn, reason: str | None, /) -> None:
        """Stores a turn that was stopped. `reason` is None if its channel was closed."""
        ...

    async def fail(self, turn: Turn, fault: TurnFault, /) -> None:
        """Stores a turn that failed."""
        ...


@final
@dataclass(slots=True)
class Turn:
    """A turn under way, whose thread is leased.

    `role`: what its tools may do. `interactive`: a person can be asked for more rounds of tools.
    `features`: optional abilities of the client. `calendar`: counts the periods of blocks and tools
    (None: that of the settings), back from `reference` (milliseconds since 1970, None: now).
    `answer`: text since the person's message. `has_outcomes`: outcomes of proposals were added for
    the model. `reply`: the answer that is being received. `ending`: the last event, once closed.
    """

    threads: Threads
    stored: StoredThread
    person: Person
    language: Language
    hold: TurnLease
    kind: TurnKind
    role: Role
    interactive: bool = True
    features: frozenset[str] = NO_FEATURES
    session: ProposingSession = CHAT_SESSION
    stores_instructions: bool = True
    calendar: Calendar | None = None
    reference: int | None = None
    run: RunFacts | None = None
    """What a run is told of itself."""
    trace: TurnTrace = field(default_factory=TurnTrace)
    conversation: TurnConversation = field(init=False)
    answer: list[str] = field(default_factory=list[str])
    has_outcomes: bool = False
    reply: Reply | None = None
    ending: Ending = field(init=False)
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    words_only: bool = False
    corrections: int = 0
    failed_twice: Answered | None = None
    """The answer to a call that failed twice in the same way: the turn ends with its error."""
    second_look: list[CallUsage] = field(default_factory=list[CallUsage])
    """Model calls of a second look, reported with the usage of the first answer."""
    always_sent: tuple[SystemMessage, ...] | None = None
    """Messages after the instructions that are not stored; None: not read yet."""

    def __post_init__(self) -> None:
        self.conversation = TurnConversation(self.stored.thread.messages, self.language)
        if not self.graph_key:
            self.always_sent = ()

    # Facts

    @property
    def thread_id(self) -> str:
        return self.stored.thread.key

    @property
    def graph_key(self) -> str:
        return self.stored.thread.graph_key

    @property
    def payer(self) -> Payer:
        return Payer(workspace=self.person.workspace, person=self.person.user_id)

    @property
    def state(self) -> StoredTurn:
        return self.stored.thread.turn

    @property
    def text(self) -> str:
        return "".join(self.answer)

    @property
    def messages(self) -> list[Message]:
        return self.conversation.messages

    @property
    def proposed(self) -> bool:
        """Whether a change was proposed, or its outcome added, since the person's last message."""
        return self.has_outcomes or self.conversation.proposed

    @property
    def calls_left(self) -> int | None:
        """Number of model calls that are left before the last one of a run; None: no limit."""
        session = self.stored.thread.session
        if session is None or session.roundtrip_limit is None:
            return None
        return max(0, session.roundtrip_limit - session.roundtrips)

    @property
    def question(self) -> PendingQuestion | None:
        """The question to the person that the turn waits for."""
        return PendingQuestion.of(self.stored.thread)

    @property
    def started(self) -> TurnStarted:
        """The first event of the turn."""
        return TurnStarted(
            thread_id=self.thread_id,
            turn=self.state.number,
            retrieved=self.conversation.retrieved,
            reasons=self.reasons,
            words_only=self.words_only,
        )

    def phrase(self, name: str, **values: str) -> str:
        return self.conversation.phrase(name, **values)

    # State

    def change(self, **changes: Any) -> None:
        """Changes fields of the stored turn; stored with the next `save`."""
        self.change_thread(turn=self.state.model_copy(update=changes))

    def change_thread(self, **changes: Any) -> None:
        """Changes fields of the thread; stored with the next `save`."""
        self.put_thread(self.stored.thread.model_copy(update=changes))

    def put_thread(self, thread: Thread) -> None:
        """Replaces the thread; stored with the next `save`."""
        self.stored = StoredThread(thread=thread, version=self.stored.version)

    async def save(self, status: TurnStatus, waits_for: Any = None) -> None:
        """Stores the thread as it is now. Raises: ThreadBusy if another process took it over."""
        await self.kind.save(self, status, waits_for)

    async def store(self, status: TurnStatus, waits_for: Any) -> None:
        """Stores the thread with a status, and what it waits for; called by the kind of turn."""
        lead = [] if self.stores_instructions else self.conversation.take_instructions()
        try:
            self.change(status=status, text=self.text if status in ("waiting", "limit") else "")
            self.change_thread(
                pending_interrupt=waits_for,
                message_count=history.said_count(self.messages),
                tool_call_count=len(history.calls_of(self.messages)),
            )
            self.hold.check()
            keep = partial(setattr, self, "stored")
            await self.threads.save_whole(self.stored, self.messages, keep)
        finally:
            self.messages[:0] = lead

    def add_usage(self, usage: UsageReported, *, provider: str, model: str) -> None:
        """Adds a model call to the sums of the thread, and of its run."""
        thread = self.stored.thread
        self.change_thread(
            total_prompt_tokens=thread.total_prompt_tokens + usage.prompt,
            total_completion_tokens=thread.total_completion_tokens + usage.completion,
            total_tokens=thread.total_tokens + usage.prompt + usage.completion,
            total_cost=thread.total_cost + (usage.cost_usd or 0.0),
            unpriced_tokens=thread.unpriced_tokens + usage.unpriced,
            provider=provider,
            model=model,
        )
        if (session := thread.session) is not None:
            summed = {"usage": _with_call(session.usage, usage)}
            self.change_thread(session=session.model_copy(update=summed))

    # Opening

    def take_retrieval(self, prepared: PreparedPrompt) -> None:
        """Records what was retrieved for the person's message."""
        retrieval = prepared.retrieval
        self.set_always_sent(prepared.always_sent)
        self.reasons = {scored.node.key: scored.reasons for scored in retrieval.nodes}
        self.words_only = retrieval.words_only
        self.trace.retrieved(retrieval)

    def begin(
        self,
        context: SystemMessage | None,
        question: UserMessage | None,
        *,
        rounds: int,
        notes: Sequence[SystemMessage] = (),
    ) -> None:
        """Begins a turn with the person's message, or with notes alone, and closes what the turn
        before left open.
        """
        self.conversation.begin_turn(context, question, notes)
        self.change(
            number=self.state.number + 1, rounds_used=0, rounds_allowed=rounds, text="", started=[]
        )

    def continue_text(self) -> None:
        """Continues the text that a waiting turn was stored with."""
        self.answer.append(self.state.text)

    # Answers and calls

    def start_reply(self, reply: Reply) -> None:
        """Starts to receive an answer."""
        self.reply = reply

    def set_always_sent(self, message: SystemMessage | None) -> None:
        self.always_sent = () if message is None else (message,)

    def set_second_look(self, used: list[CallUsage]) -> None:
        self.second_look = used

    def take_second_look(self) -> list[CallUsage]:
        """Returns the model calls of the second look that were not reported yet."""
        used = self.second_look
        self.second_look = []
        return used

    def take_reply(self) -> Reply:
        """Adds the received answer to the conversation."""
        assert self.reply is not None
        reply = self.reply
        self.reply = None
        self.conversation.add(reply.message)
        return reply

    def drop_reply(self) -> None:
        """Forgets the answer that is being received."""
        self.reply = None

    def keep_partial_reply(self) -> None:
        """Adds the text that was shown of an unfinished answer to the conversation."""
        reply = self.reply
        self.reply = None
        if reply is not None and reply.text.strip():
            self.conversation.add(AssistantMessage(content=reply.text))

    def add_correction(self, form: str) -> int:
        """Tells the model what was wrong with the form of its answer.

        Returns the number of corrections in a row.
        """
        self.corrections += 1
        self.conversation.add_note(form)
        return self.corrections

    def reset_corrections(self) -> None:
        self.corrections = 0

    def note_failure(self, answered: Answered) -> None:
        """Records a call that failed as before, or whose proposal may be stored all the same."""
        if answered.outcome == "unchanged" and self.session.kind == "chat":
            self.failed_twice = answered
        if answered.unsure:
            self.change(unsure=[*self.state.unsure, answered.call.id])

    async def begin_act(self, call_id: str) -> None:
        """Stores that a call is about to act."""
        self.change(started=[*self.state.started, call_id])
        await self.save("running")

    async def end_act(self, answered: Answered, limits: CallLimits) -> None:
        """Stores the result of an act before the model gets it, also after a stop."""
        self.take_answer(answered, limits)
        await self.save(self.state.status)

    def take_answer(self, answered: Answered, limits: CallLimits) -> None:
        """Adds the answer to a call to the conversation, once."""
        call = answered.call
        if self.conversation.is_answered(call.id):
            return
        if not self.kind.record_call(self, call, answered):
            self.conversation.add(answered.message(limits))

    def answer_started(self) -> None:
        """Answers the acts of a turn that broke off: they are not run again."""
        unanswered = history.unanswered(self.messages)
        started = [call for call in unanswered if call.id in self.state.started]
        for call in started:
            self.kind.record_call(self, call, None)
        self.conversation.refuse("act_interrupted", started)

    def answer_rest(self, phrase: str) -> None:
        """Answers every call without an answer, except those that wait for a person."""
        self.answer_started()
        unanswered = history.unanswered(self.messages)
        rest = [call for call in unanswered if call.id not in self.state.open]
        self.conversation.refuse(phrase, rest)

    def open_proposals(self, approvals: Sequence[Approval]) -> None:
        """Records proposals whose outcome the model is to get."""
        proposals = {approval.tool_call_id: approval.id for approval in approvals}
        self.change(open=self.state.open | proposals)

    def add_late_outcomes(self, outcomes: Sequence[str], *, answered: bool) -> None:
        """Adds a note on outcomes whose calls were answered before.

        `answered`: other calls were answered with their outcome.
        """
        if outcomes:
            self.conversation.add_note("decided_since", outcomes="\n".join(outcomes))
        self.has_outcomes = self.has_outcomes or bool(outcomes) or answered

    # Questions

    def answer_question(self, response: Response) -> ToolFinished:
        """Gives the model the answer to the pending question; stored with the next `save`.

        Raises: NoQuestion, AlreadyAnswered, WrongResponse.
        """
        pending = self.question or no_question(self.thread_id, self.messages)
        pending.question.check(response)
        self.change_thread(pending_interrupt=None)
        words = in_words(response, self.language)
        return self.conversation.answer(pending.call, self.phrase("answered", answer=words))

    def close_question(self) -> None:
        """Tells the model that the person wrote a message instead of an answer."""
        if (pending := self.question) is not None:
            self.change_thread(pending_interrupt=None)
            self.conversation.answer(pending.call, self.phrase("question_closed"))

    # Endings

    def end(self, ending: Ending) -> None:
        """Records the last event of the turn."""
        self.ending = ending

    async def complete(self, text: str) -> Completed:
        """Stores the complete turn, whose final text is given."""
        self.conversation.repair()
        await self.save("idle")
        last = self.messages[-1]
        marked = last.not_in_graph if isinstance(last, AssistantMessage) else None
        return Completed(thread_id=self.thread_id, text=text, not_in_graph=marked)

    async def wait(self, waiting: Sequence[Approval]) -> ProposalPending:
        """Stores that the turn waits for decisions."""
        interrupt = {"type": "interrupt", "approvalIds": [approval.id for approval in waiting]}
        await self.save("waiting", interrupt)
        return ProposalPending(thread_id=self.thread_id, text=self.text, approvals=tuple(waiting))

    async def at_limit(self, max_rounds: int) -> ToolLimit:
        """Stores that the turn waits for more rounds of tools."""
        used = self.state.rounds_used
        interrupt = {"type": "tool_limit", "roundsUsed": used, "maxExtended": max_rounds}
        await self.save("limit", interrupt)
        return ToolLimit(
            thread_id=self.thread_id, text=self.text, rounds_used=used, max_extended=max_rounds
        )

    async def ask_person(self, question: PendingQuestion) -> QuestionAsked:
        """Stores that the turn waits for an answer."""
        await self.save("waiting", question.stored())
        return QuestionAsked(thread_id=self.thread_id, text=self.text, asked=question)


def _with_call(before: SessionUsage, call: UsageReported) -> SessionUsage:
    """Returns the sums of a run with another model call."""
    return SessionUsage(
        **{name: getattr(before, name) + getattr(call, name) for name in TOKENS},
        cost_usd=before.cost_usd + (call.cost_usd or 0.0),
        unpriced_tokens=before.unpriced_tokens + call.unpriced,
    )
