"""A turn under way: its conversation, where it stands, and what of it is stored.

It is stored after every step. What is stored may hold calls that wait for an answer: who takes the
thread up again calls `collect_outcomes` first, which answers them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from graphrag.agent import history
from graphrag.agent.claims import NotInGraph
from graphrag.agent.events import (
    ActionApplied,
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
from graphrag.agent.thread_store import StoredThread, StoredTurn, Threads, TurnStatus
from graphrag.agent.tool_calls import Answered, CallLimits, Requested
from graphrag.agent.turn_lease import CANCELLED, TurnLease
from graphrag.agent.turn_trace import TurnTrace
from graphrag.approvals import (
    CHAT_SESSION,
    Approval,
    ApprovalNotFound,
    Approvals,
    Person,
    ProposingSession,
    outcome_facts,
    outcome_text,
)
from graphrag.i18n import Language
from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrag.llm.usage_meter import CallUsage, Payer
from graphrag.prompts.library import load_phrases
from graphrag.sessions.periods import Calendar
from tools.base import NO_FEATURES, Role
from tools.session_tools import Response

CORRECTIONS = 2
"""How often in a row a model is asked again whose answer has a wrong form (empty, or a tool call
written as text); the last time without tools. The third such answer ends the turn.
"""
_LOOKED_AT_CHARS = 20_000
_DESCRIBED_CALL = re.compile(r"\bpropose_[a-z_]{4,40}\b[^{]{0,300}\{")
"""The name of a tool that changes the graph, and arguments after it."""


@dataclass(slots=True)
class RunningTurn(history.ConversationView):
    """`answer` is what was said since the person's message; `has_outcomes`: outcomes of proposals
    were just added for the model.

    `reply` is what the model is saying, until it is part of `messages`. `reasons`, `words_only`:
    see TurnStarted. `interactive`: a person can be asked for more rounds of tools. `features`: what
    else the person's client can show. `calendar`: how the periods of its blocks and tools count
    (None: as the settings say), from `reference` on (milliseconds since 1970, None: now). `ending`:
    the last event, once closed.
    """

    threads: Threads
    stored: StoredThread
    messages: list[Message]
    person: Person
    language: Language
    hold: TurnLease
    answer: list[str] = field(default_factory=list[str])
    has_outcomes: bool = False
    reply: Reply | None = None
    ending: Ending = field(init=False)
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    words_only: bool = False
    interactive: bool = True
    corrections: int = 0
    features: frozenset[str] = NO_FEATURES
    session: ProposingSession = CHAT_SESSION
    calendar: Calendar | None = None
    reference: int | None = None
    trace: TurnTrace = field(default_factory=TurnTrace)
    failed_twice: Answered | None = None
    """The answer to a call that failed in this turn as it did before: the turn ends
    with its error.
    """
    looked: list[CallUsage] = field(default_factory=list[CallUsage])
    """What a second look took, until it is reported with the first answer."""
    always_sent: tuple[SystemMessage, ...] | None = None
    """What stands after the instructions and is never stored; None: not looked for yet."""

    @property
    def started(self) -> TurnStarted:
        """The event that it began."""
        return TurnStarted(
            thread_id=self.thread_id,
            turn=self.state.number,
            retrieved=self.retrieved,
            reasons=self.reasons,
            words_only=self.words_only,
        )

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
    def role(self) -> Role:
        """What its tools may do."""
        return self.person.role

    @property
    def text(self) -> str:
        return "".join(self.answer)

    @property
    def calls_allowed(self) -> int | None:
        """How often its model is asked at most; None: a conversation has no such limit."""
        return None

    @property
    def is_over(self) -> bool:
        """Whether the model is not to be asked again."""
        return False

    def is_wrong_form(self, reply: Reply) -> bool:
        """Whether an answer without calls cannot stand."""
        return reply.leaked or reply.is_empty or self._describes_call(reply)

    def _describes_call(self, reply: Reply) -> bool:
        """Whether an answer shows a person how a tool would be called, instead of calling it."""
        describes = _DESCRIBED_CALL.search(reply.text[:_LOOKED_AT_CHARS]) is not None
        return describes and self.asks_for_change and not self.proposed and not self.corrections

    async def correct(self, reply: Reply) -> bool:
        """Tell the model what was wrong with its form; return whether it may still call tools."""
        self.corrections += 1
        form = "leaked" if reply.leaked else "empty" if reply.is_empty else "described"
        note = self.phrase(form)
        self.messages.append(SystemMessage(content=note, stable=False))
        await self.save("running")
        return self.corrections < CORRECTIONS

    def accept(self, reply: Reply, writes: Callable[[str], bool]) -> Requested:  # noqa: ARG002 - a run asks it
        """Return the calls of an answer that are to be run."""
        return reply.requested

    def answered(self, answered: Answered) -> bool:  # noqa: ARG002 - a run holds the call back that ends it
        """Take in what a call gave; return whether its answer waits until the step is over."""
        return False

    async def begin_act(self, call_id: str) -> None:
        """Store that a call begins to act, before it does."""
        self.change(started=[*self.state.started, call_id])
        await self.save("running")

    async def end_act(self, answered: Answered, limits: CallLimits) -> None:
        """Store what an act gave, with all that it changed, before the model gets it; also
        after a stop.
        """
        self.take_answer(answered, limits)
        await self.save(self.state.status)

    def take_answer(self, answered: Answered, limits: CallLimits) -> None:
        """Make the answer to a call part of the conversation, once."""
        done = {m.call_id for m in self.messages if isinstance(m, ToolMessage)}
        if answered.call.id not in done and not self.answered(answered):
            self.messages.append(answered.message(limits))

    def answer_started(self) -> None:
        """Answer the calls that began to act in a turn that broke off: they are never run again."""
        started = [
            call for call in history.unanswered(self.messages) if call.id in self.state.started
        ]
        self.refuse("act_interrupted", started)

    def stepped(self, made: Sequence[Approval]) -> None:
        """Take in what became of the calls of a step, with the proposals that were made in it."""

    def call_notes(self) -> Sequence[str]:
        """Return what is added for the model before it is asked, besides the conversation."""
        return ()

    def phrase(self, name: str, **values: str) -> str:
        return load_phrases("turn", self.language)[name].render(values)

    def change(self, **changes: Any) -> None:
        """Change where the turn stands; stored with the next `save`."""
        self._update(turn=self.state.model_copy(update=changes))

    def _update(self, **changes: Any) -> None:
        thread = self.stored.thread.model_copy(update=changes)
        self.stored = StoredThread(thread=thread, version=self.stored.version)

    async def save(self, status: TurnStatus, waits_for: Any = None) -> None:
        """Store the thread as it is now. Raises: ThreadBusy when somebody else took it up."""
        self.change(status=status, text=self.text if status in ("waiting", "limit") else "")
        self._update(
            pending_interrupt=waits_for,
            message_count=history.said_count(self.messages),
            tool_call_count=len(history.calls_of(self.messages)),
        )
        self.hold.check()
        await self.threads.save_whole(self.stored, self.messages, partial(setattr, self, "stored"))

    def take_reply(self) -> Reply:
        """Make the model's answer part of the conversation."""
        assert self.reply is not None
        reply = self.reply
        self.reply = None
        self.messages.append(reply.message)
        return reply

    def mark_answer(self, claims: NotInGraph) -> None:
        """Keep with the answer, which is the last message, what it claims that the graph
        does not have.
        """
        last = self.messages[-1]
        assert isinstance(last, AssistantMessage)
        self.messages[-1] = replace(last, not_in_graph=claims.document(self.language))

    async def complete(self) -> Completed:
        self.repair_history()
        await self.save("idle")
        last = self.messages[-1]
        marked = last.not_in_graph if isinstance(last, AssistantMessage) else None
        return Completed(thread_id=self.thread_id, text=self.text, not_in_graph=marked)

    async def wait(self, waiting: Sequence[Approval]) -> ProposalPending:
        """Store that the turn waits for people."""
        await self.save(
            "waiting", {"type": "interrupt", "approvalIds": [one.id for one in waiting]}
        )
        return ProposalPending(thread_id=self.thread_id, text=self.text, approvals=tuple(waiting))

    async def at_limit(self, max_rounds: int) -> ToolLimit:
        """Store that the turn waits for more rounds of tools."""
        used = self.state.rounds_used
        await self.save(
            "limit", {"type": "tool_limit", "roundsUsed": used, "maxExtended": max_rounds}
        )
        return ToolLimit(
            thread_id=self.thread_id, text=self.text, rounds_used=used, max_extended=max_rounds
        )

    @property
    def question(self) -> PendingQuestion | None:
        """What the turn asks the person and waits for."""
        return PendingQuestion.of(self.stored.thread)

    async def ask_person(self, asked: PendingQuestion) -> QuestionAsked:
        """Store that the turn waits for an answer."""
        await self.save("waiting", asked.stored())
        return QuestionAsked(thread_id=self.thread_id, text=self.text, asked=asked)

    def answer_question(self, response: Response) -> ToolFinished:
        """Give the model the answer to the pending question; stored with the next `save`.

        Raises: NoQuestion, AlreadyAnswered, WrongResponse.
        """
        asked = self.question or no_question(self.thread_id, self.messages)
        asked.question.check(response)
        self._update(pending_interrupt=None)
        words = in_words(response, self.language)
        return self._answer_call(asked.call, self.phrase("answered", answer=words))

    def close_question(self) -> None:
        """Tell the model that the person wrote something else instead."""
        if (asked := self.question) is not None:
            self._update(pending_interrupt=None)
            self._answer_call(asked.call, self.phrase("question_closed"))

    def _answer_call(
        self,
        call: ToolCall,
        text: str,
        *,
        failed: bool = False,
        outcome: Any = None,
        data: Any = None,
    ) -> ToolFinished:
        """Give the model the answer to a call."""
        about: dict[str, Any] = {"call_id": call.id, "name": call.name, "is_error": failed}
        self.messages.append(ToolMessage(content=text, outcome=outcome, **about))
        return ToolFinished(arguments=call.arguments, result_text=text, data=data, **about)

    async def abandon(self) -> None:
        """Leave a turn whose channel is closed: nobody waits for its answer."""
        await self.stop()

    async def stop(self, reason: str = CANCELLED) -> None:  # noqa: ARG002 - a run may only pause
        """Store what there is of a turn that a person stopped; what was shown of
        an answer stays.
        """
        reply = self.reply
        self.reply = None
        if reply is not None and reply.text.strip():
            self.messages.append(AssistantMessage(content=reply.text))
        self.answer_rest("stopped")
        await self.save("stopped")

    async def fail(self, fault: TurnFault) -> None:  # noqa: ARG002 - a run goes on after some
        """Store a turn that broke off, so that the step can be tried again."""
        self.reply = None
        self.answer_rest("interrupted")
        await self.save("failed")

    def used(self, usage: UsageReported, *, provider: str, model: str) -> None:
        """Add a model call to the thread's sums."""
        thread = self.stored.thread
        self._update(
            total_prompt_tokens=thread.total_prompt_tokens + usage.prompt,
            total_completion_tokens=thread.total_completion_tokens + usage.completion,
            total_tokens=thread.total_tokens + usage.prompt + usage.completion,
            total_cost=thread.total_cost + (usage.cost_usd or 0.0),
            unpriced_tokens=thread.unpriced_tokens + usage.unpriced,
            provider=provider,
            model=model,
        )

    def opened(self, approvals: Sequence[Approval]) -> None:
        """Remember proposals whose outcome the model is to get."""
        self.change(
            open=self.state.open | {approval.tool_call_id: approval.id for approval in approvals}
        )

    def begin(self, context: SystemMessage | None, question: UserMessage, *, rounds: int) -> None:
        """Begin a turn with the person's message: what was left open before is closed."""
        self.repair_history()
        messages = history.past_turns(self.messages)
        said = [
            message
            for message in history.for_model(messages)
            if not isinstance(message, SystemMessage)
        ]
        if said and not isinstance(said[-1], AssistantMessage):
            messages.append(AssistantMessage(content=self.phrase("unanswered_turn")))
        self.messages = [*messages, *([context] if context else ()), question]
        self.change(
            number=self.state.number + 1, rounds_used=0, rounds_allowed=rounds, text="", started=[]
        )

    def answer_rest(self, phrase: str) -> None:
        """Answer every call that has no answer, but for those that wait for a person."""
        self.answer_started()
        self.refuse(
            phrase, [c for c in history.unanswered(self.messages) if c.id not in self.state.open]
        )

    def refuse(self, name: str, calls: Sequence[ToolCall], /, **values: str) -> None:
        """Answer calls that are not run with a phrase that says why."""
        said = self.phrase(name, **values)
        self.messages += [
            ToolMessage(call_id=call.id, name=call.name, content=said, is_error=True)
            for call in calls
        ]

    def repair_history(self) -> None:
        """Put every answer in its place; nothing may wait for one any more."""
        self.messages = history.repaired(self.messages, missing=self.phrase("interrupted"))

    async def collect_outcomes(
        self, approvals: Approvals, *, keep_waiting: bool
    ) -> tuple[list[Event], list[Approval]]:
        """Answer the calls of proposals that were decided; return the events of that, and
        what still waits.

        Without `keep_waiting` a call whose proposal is undecided is answered with just that; its
        outcome is added later, whatever the conversation is about then.
        """
        events: list[Event] = []
        waiting: list[Approval] = []
        late: list[str] = []
        await self._adopt(approvals)
        asked = {call.id: call for call in history.unanswered(self.messages)}
        still_open: dict[str, str] = {}
        for call_id, approval_id in self.state.open.items():
            approval = None
            with suppress(ApprovalNotFound):
                approval = await approvals.get(approval_id, self.person)
            if approval is not None and approval.is_open:
                waiting.append(approval)
                still_open[call_id] = approval_id
                if keep_waiting or call_id not in asked:
                    continue
            text = self._outcome(approval)
            if approval is not None and approval.status == "applied":
                events.append(ActionApplied(approval=approval))
            call = asked.get(call_id)
            if call is None:
                late.append(f"- {text}")
                continue
            facts = outcome_facts(approval, self.language) if approval else None
            data = approval.to_document()["action"] if approval else None
            failed = approval is None or approval.status in ("stale", "failed")
            events.append(self._answer_call(call, text, failed=failed, outcome=facts, data=data))
        self.change(open=still_open)
        if late:
            note = self.phrase("decided_since", outcomes="\n".join(late))
            self.messages.append(SystemMessage(content=note, stable=False))
        self.has_outcomes = self.has_outcomes or bool(late or events)
        # Those made in the same millisecond stay in the order in which the model asked for them.
        return events, sorted(waiting, key=lambda approval: approval.created)

    async def decide_by_policy(
        self, approvals: Approvals, waiting: list[Approval]
    ) -> tuple[list[Event], list[Approval]]:
        """Apply what waits if none of it needs a person; return the events of that, and
        what still waits.
        """
        if not waiting or any(approval.needs_person for approval in waiting):
            return [], waiting
        await approvals.decide_by_policy([approval.id for approval in waiting], fence=self.hold)
        return await self.collect_outcomes(approvals, keep_waiting=True)

    def _outcome(self, approval: Approval | None) -> str:
        if approval is None:
            return self.phrase("interrupted")
        outcome = outcome_text(approval, self.language)
        return self.phrase("still_open", outcome=outcome) if approval.is_open else outcome

    async def _adopt(self, approvals: Approvals) -> None:
        """Find proposals that were kept just before a crash, or after storing them took too long,
        so that the thread does not know them.
        """
        known = set(self.state.open.values())
        asked = {call.id for call in history.unanswered(self.messages)} | set(self.state.unsure)
        if not asked - self.state.open.keys():
            return
        found = await approvals.list(thread_id=self.thread_id, by=self.person)
        self.opened([a for a in found if a.id not in known and a.tool_call_id in asked])
        self.change(unsure=[])  # the turn that stored them is over: none comes later
