"""Asks the model for a turn: makes its conversation fit, counts what is used."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass, replace

from datasources.base import GraphDataSource
from graphrag.agent import history, prompt_budget
from graphrag.agent.change_words import asks_for_change, claims_change, requests_change
from graphrag.agent.events import Event, TextTakenBack, Token, ToolStarted, UsageReported
from graphrag.agent.reply import LinkFilter, Reply
from graphrag.agent.running_turn import RunningTurn
from graphrag.llm.base import (
    TOKENS,
    AssistantMessage,
    LearnsWindow,
    LLMProvider,
    Message,
    ModelOptions,
    SystemMessage,
    ToolMessage,
    ToolSchema,
    UserMessage,
    is_stable,
)
from graphrag.llm.errors import ModelContextTooLong, ModelError
from graphrag.llm.metered import ModelRequest, metered_call
from graphrag.llm.model_text import ModelText, ThinkingHabits, complete
from graphrag.llm.registry import OFFLINE, Pricing
from graphrag.llm.tokens import count_tokens, prompt_tokens
from graphrag.llm.usage_meter import CallUsage, Payer, UsageMeter
from graphrag.llm.written_calls import WrittenCall, read_described_calls
from graphrag.retrieval.always_sent import ALWAYS_TOKENS, write_always_sent
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.second_look import SecondLook
from graphrag.roles import Person
from tools.base import Role, SessionKind, ToolBox

log = logging.getLogger(__name__)

ALONE_TOKENS = 2_000  # of an answer outside of conversations, the model's thinking counted
APART = "\n\n"
"""Between what a model says before and after it called something."""

ALWAYS_SHARE = 0.25
"""Of the room for a prompt, for the nodes that are always sent at most."""

SMALL_TEMPERATURE = 0.1
"""Of a model with a small window, where none is set: local servers sample at .7 to 1."""

SECOND_SHARE = 0.5
"""Of the window, for the second try after a model refused a prompt that should have fit."""

TRIES = ((1.0, True), (1.0, False), (SECOND_SHARE, True), (SECOND_SHARE, False))
"""Shares of the window, with tools or without, until a request fits; the last for a
small window only.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offered:
    schemas: tuple[ToolSchema, ...] = ()
    tokens: int = 0


class ModelCaller:
    """One model with its tools, for the turns of one workspace."""

    def __init__(
        self,
        provider: LLMProvider,
        box: ToolBox,
        source: GraphDataSource,
        *,
        meter: UsageMeter,
        pricing: Pricing,
        history_turns: int = history.KEPT_TURNS,
        second_look: bool = False,
    ) -> None:
        self.provider = provider
        self._box = box
        self._source = source
        self._meter = meter
        self._pricing = pricing
        self._history_turns = history_turns
        self._second_look = second_look
        self._habits = ThinkingHabits()
        self._temperature: float | None = None
        self._known = box.names
        self._sizes: dict[
            tuple[Role, SessionKind, frozenset[str]],
            list[tuple[ToolSchema, prompt_budget.ToolSize]],
        ] = {}

    def with_tools(
        self,
        box: ToolBox,
        provider: LLMProvider | None = None,
        pricing: Pricing | None = None,
        *,
        temperature: float | None = None,
    ) -> ModelCaller:
        """Return a caller with other tools, and of another model where one is given, whose calls
        are paid alike.
        """
        made = copy(self)
        made.provider = provider or self.provider
        made._pricing = pricing or self._pricing
        made._box = box
        made._known = box.names
        made._sizes = {}
        made._temperature = temperature
        made._second_look = False
        return made

    async def ask(self, turn: RunningTurn, *, final: bool) -> AsyncGenerator[Event]:
        """Yield what the model says and what it used; `turn.reply` is filled.

        A `final` answer is one without tools: what is called in it all the same is forgotten.
        Raises: ModelError, WindowTooSmall; then `turn.reply` holds what was shown so far.
        """
        taken = {call.id for call in history.calls_of(turn.messages)}
        held = self._habits.may_begin(self.provider, can_take_back=_is_terminal(turn.person))
        words = ModelText(self._known, holds_beginning=held)
        reply = turn.reply = Reply(LinkFilter(self._source, turn.graph_key), words, taken=taken)
        used: list[CallUsage] = []
        start = len(turn.answer)
        if turn.always_sent is None:
            graph = await self._source.get_graph(turn.graph_key)
            budget = self.always_tokens
            made = await write_always_sent(
                self._source, graph, language=turn.language, budget=budget
            )
            turn.always_sent = () if made is None else (made,)
        tries = list(TRIES)
        began = time.perf_counter()
        answered = False
        request: ModelRequest | None = None
        try:
            while not answered:
                share, with_tools = tries.pop(0)
                try:
                    request = self.request(turn, share=share, with_tools=with_tools, final=final)
                    stream = self.provider.stream(request.messages, request.tools, request.options)
                    metered = metered_call(
                        self.provider,
                        request,
                        self._meter,
                        self._pricing,
                        payer=turn.payer,
                        used=used,
                    )
                    async with metered as call, aclosing(stream) as chunks:
                        async for chunk in chunks:
                            call.feed(chunk)
                            for event in _shown(turn, start, await reply.feed(chunk), final=final):
                                yield event
                            if reply.is_full:
                                break
                    answered = True
                except (history.WindowTooSmall, ModelContextTooLong) as exc:
                    if isinstance(exc, ModelContextTooLong):  # it counts otherwise: half must do
                        tries = [one for one in tries if one[0] == SECOND_SHARE]
                    tries = tries if self.is_small else [one for one in tries if one != TRIES[-1]]
                    # What was paid for counts before a run asks again.
                    if (
                        not tries
                        or reply.text
                        or reply.calls
                        or (used and turn.session.kind != "chat")
                    ):
                        raise
                    facts = {"thread_id": turn.thread_id, "model": self.provider.model}
                    log.info("prompt_shortened", extra=facts | {"error": type(exc).__name__})
                except ModelError:
                    for event in _shown(turn, start, await reply.broken(), final=final):
                        yield event
                    raise
            for event in _shown(turn, start, await reply.end(), final=final):
                yield event
            if described := self._described(turn, reply, request, final=final):
                for event in _shown(turn, start, reply.take_described(described), final=final):
                    yield event
            self._habits.note(self.provider, words)
        finally:
            usage = _reported([*turn.looked, *used])
            turn.looked = []
            own = _reported(used)
            turn.used(own, provider=self.provider.name, model=self.provider.model)
            turn.trace.asked(request, own, self.provider, began, failed=not answered)
        yield usage
        if final:
            reply.calls.clear()
        for text in self._missing(turn, reply, final=final):
            reply.text += text
            turn.answer.append(text)
            yield Token(text=text)

    def _described(
        self, turn: RunningTurn, reply: Reply, request: ModelRequest | None, *, final: bool
    ) -> list[WrittenCall]:
        """Returns the proposals that an answer describes to a person who asked for a change.

        A proposal changes nothing before it is approved, so that it is made in place
        of being described.
        """
        is_open = request is None or final or reply.calls or reply.finish == "length"
        if (
            is_open
            or turn.session.kind != "chat"
            or turn.proposed
            or not requests_change(turn.asked)
        ):
            return []
        assert request is not None
        offered = (str(schema["function"]["name"]) for schema in request.tools)
        tools = [name for name in offered if (t := self._box.get(name)) and t.effect == "proposes"]
        calls = read_described_calls(reply.text, tools)
        is_whole = all(self._box.accepts(call.name, call.arguments) for call in calls)
        return (
            calls if is_whole and not any(turn.was_read(call.arguments) for call in calls) else []
        )

    async def answer_alone(
        self, messages: Sequence[Message], payer: Payer
    ) -> tuple[str, UsageReported]:
        """Return the answer to messages that are no conversation of ours: without tools,
        and stored nowhere.

        Raises: ModelError, UsageLimitReached.
        """
        request = ModelRequest(
            messages=messages, tools=(), options=ModelOptions(max_tokens=ALONE_TOKENS)
        )
        used: list[CallUsage] = []
        metered = metered_call(
            self.provider, request, self._meter, self._pricing, payer=payer, used=used
        )
        async with metered as call:
            answer = await complete(
                self.provider, messages, options=request.options, on_chunk=call.feed
            )
        return answer.text, _reported(used)

    def second_look(self, turn: RunningTurn, retriever: Retriever) -> SecondLook | None:
        """Return what has the model assess what the retriever finds, where that is
        wanted and possible.
        """
        if not self._second_look or self.is_small or self.provider.name == OFFLINE:
            return None
        return SecondLook(
            retriever=retriever,
            provider=self.provider,
            meter=self._meter,
            pricing=self._pricing,
            payer=turn.payer,
            language=turn.language,
        )

    def looked(self, turn: RunningTurn, look: SecondLook) -> None:
        """Count and trace the call of a second look with the turn."""
        turn.looked = look.used
        if look.used:
            turn.used(_reported(look.used), provider=self.provider.name, model=self.provider.model)
            began = time.perf_counter() - look.ms / 1000
            turn.trace.asked(
                None, _reported(look.used), self.provider, began, failed=bool(look.failed)
            )

    def _missing(self, turn: RunningTurn, reply: Reply, *, final: bool) -> list[str]:
        """Return what has to be said in the model's place."""
        if reply.finish == "length" and not reply.calls:
            return [("\n\n" if reply.text else "") + turn.phrase("cut_off")]
        if not reply.calls and not turn.proposed and claims_change(reply.text, turn.asked):
            return ["\n\n" + turn.phrase("nothing_changed")]
        if (failed := turn.failed_twice) is not None and final:
            said = turn.phrase(
                "failed_twice", tool=failed.call.name[:100], error=failed.last_problem
            )
            return [("\n\n" if reply.text else "") + said]
        if not final or reply.text.strip():
            return []
        return [turn.phrase("no_usable_answer" if turn.corrections else "no_answer")]

    def request(
        self, turn: RunningTurn, *, share: float, with_tools: bool, final: bool
    ) -> ModelRequest:
        """Return what is sent for a turn, in a share of the window. Raises: WindowTooSmall."""
        offered = self._offered(turn) if with_tools else _Offered()
        limit = (
            prompt_budget.prompt_room(self.provider.context_window, share=share) - offered.tokens
        )
        lead = next(
            (i for i, m in enumerate(turn.messages) if not is_stable(m)), len(turn.messages)
        )
        sent = [*turn.messages[:lead], *(turn.always_sent or ()), *turn.messages[lead:]]
        phrase = _phrase_of(turn, final=final)
        notes = _notes(turn, phrase)
        messages: list[Message] = history.fitted(
            sent, limit - prompt_tokens(notes), keep=self._history_turns
        )
        _log_prompt(messages, phrase)
        messages += notes
        # The tools stay in a final request: formats refuse calls of tools that are not declared.
        temperature = self._temperature
        if temperature is None and self.is_small:
            temperature = SMALL_TEMPERATURE
        options = ModelOptions(tool_choice="none" if final else "auto", temperature=temperature)
        return ModelRequest(messages=messages, tools=offered.schemas, options=options)

    def _offered(self, turn: RunningTurn) -> _Offered:
        """Returns the tools of a turn that its window has room for."""
        known = self._known_tools(turn)
        taken = prompt_tokens([*history.ConversationParts.of(turn.messages).lead, *turn.opening])
        shares = prompt_budget.share_out(
            self.provider.context_window,
            [size for _, size in known],
            taken=taken,
            wanted=0,
            changing=turn.asks_for_change,
            sees_all=turn.sees_whole_graph
            and (turn.asks_for_change or not history.calls_of(turn.messages)),
        )
        kept = [known[i] for i in shares.tools]
        if len(kept) < len(known):
            log.debug("tools_left_out", extra={"offered": len(kept), "of": len(known)})
        return _Offered(
            schemas=tuple(schema for schema, _ in kept), tokens=sum(size.tokens for _, size in kept)
        )

    @property
    def is_small(self) -> bool:
        """Whether the window is so small that it gets short instructions and essential tools."""
        return prompt_budget.is_small(self.provider.context_window)

    @property
    def always_tokens(self) -> int:
        """How many tokens what is always sent may have; a small window has no room for it."""
        room_for_all = prompt_budget.prompt_room(self.provider.context_window)
        return 0 if self.is_small else min(ALWAYS_TOKENS, int(room_for_all * ALWAYS_SHARE))

    async def prepare(self) -> None:
        """Learn the model's window where its server says it."""
        if isinstance(self.provider, LearnsWindow):
            await self.provider.learn_window()

    def context_room(self, turn: RunningTurn, system_tokens: int, message: str, wanted: int) -> int:
        """Returns how many of the `wanted` tokens the context of a message may
        have. Units: tokens.
        """
        return prompt_budget.share_out(
            self.provider.context_window,
            [size for _, size in self._known_tools(turn)],
            taken=system_tokens + count_tokens(message),
            wanted=wanted,
            changing=turn.asks_for_change or asks_for_change(message),
        ).context

    def _known_tools(self, turn: RunningTurn) -> list[tuple[ToolSchema, prompt_budget.ToolSize]]:
        """Returns the tools of a role in a kind of session, each with its size, counted once."""
        asked = (turn.role, turn.session.kind, turn.features)
        if asked not in self._sizes:
            self._sizes[asked] = [
                (tool.schema(), prompt_budget.size_of(tool)) for tool in self._box.offered(*asked)
            ]
        return self._sizes[asked]


def _is_terminal(person: Person) -> bool:
    """Returns whether the person reads in a terminal, which says when a text was
    thinking after all.
    """
    return person.client is not None and person.client.channel == "cli"


def _phrase_of(turn: RunningTurn, *, final: bool) -> str | None:
    """Return the phrase that says what is wanted of the next answer."""
    if final:
        return "final"
    if turn.has_outcomes:
        return "after_outcome"
    step = turn.last_step
    if not step or turn.session.kind != "chat":
        return None
    return "after_error" if any(answer.is_error for answer in step) else "after_reads"


def _notes(turn: RunningTurn, phrase: str | None) -> list[SystemMessage]:
    """Return what is said with one request only."""
    said: list[str] = []
    if phrase is not None:
        rules = {} if phrase == "final" else {"rules": turn.phrase("answer_rules")}
        said.append(turn.phrase(phrase, **rules))
    return [
        SystemMessage(content=note, stable=False, once=True) for note in (*said, *turn.call_notes())
    ]


def _log_prompt(messages: Sequence[Message], phrase: str | None) -> None:
    """Log how much of each kind a model is sent. Counting takes a while, so only where it
    is asked for.
    """
    if not log.isEnabledFor(logging.DEBUG):
        return
    system = [m for m in messages if isinstance(m, SystemMessage)]
    results = [m for m in messages if isinstance(m, ToolMessage)]
    calls = [call for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
    said = [m for m in messages if isinstance(m, UserMessage)]
    said += [replace(m, tool_calls=()) for m in messages if isinstance(m, AssistantMessage)]
    sizes = {
        "system": {"count": len(system), "tokens": prompt_tokens(system)},
        "history": {"count": len(said), "tokens": prompt_tokens(said)},
        "calls": {
            "count": len(calls),
            "tokens": prompt_tokens([AssistantMessage(tool_calls=tuple(calls))]),
        },
        "results": {"count": len(results), "tokens": prompt_tokens(results)},
    }
    log.debug("prompt_built", extra=sizes | {"phrase": phrase})


def _shown(turn: RunningTurn, start: int, events: list[Event], *, final: bool) -> list[Event]:
    """Add the text of some events to the turn's answer; return what a person is shown of them.

    `start`: where in that answer the reply begins.
    """
    shown: list[Event] = []
    for event in events:
        if isinstance(event, Token):
            if len(turn.answer) == start and turn.text and not turn.text[-1].isspace():
                turn.answer.append(APART)
                shown.append(Token(text=APART))
            turn.answer.append(event.text)
        elif isinstance(event, TextTakenBack):
            del turn.answer[start:]
        if not (final and isinstance(event, ToolStarted)):
            shown.append(event)
    return shown


def _reported(calls: list[CallUsage]) -> UsageReported:
    """Return the sum of the calls that one answer took."""
    sums = {name: sum(getattr(call.tokens, name) for call in calls) for name in TOKENS}
    costs = [call.cost_usd for call in calls]
    known = [cost for cost in costs if cost is not None]
    return UsageReported(
        **sums,
        cost_usd=sum(known) if len(known) == len(costs) else None,
        estimated=any(call.estimated for call in calls),
    )
