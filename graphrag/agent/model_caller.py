"""Asks the model for the next answer of a turn, and meters the call."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import final

from datasources.base import GraphDataSource
from graphrag.agent import history
from graphrag.agent.change_words import claims_change, requests_change
from graphrag.agent.events import Event, TextTakenBack, Token, ToolStarted, UsageReported
from graphrag.agent.reply import LinkFilter, Reply
from graphrag.agent.turn import Turn
from graphrag.agent.turn_prompt import PromptWriter
from graphrag.llm.base import (
    TOKENS,
    Chunk,
    LearnsWindow,
    LLMProvider,
    Message,
    ModelOptions,
)
from graphrag.llm.errors import ModelContextTooLong, ModelError
from graphrag.llm.metered import CallTally, ModelRequest, metered_call
from graphrag.llm.model_text import ModelText, ThinkingMemory, complete
from graphrag.llm.registry import OFFLINE, Pricing
from graphrag.llm.usage_meter import CallUsage, Payer, UsageMeter
from graphrag.llm.written_calls import WrittenCall, read_described_calls
from graphrag.retrieval.always_sent import write_always_sent
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.second_look import SecondLook
from graphrag.roles import Person
from tools.tool_box import ToolBox

log = logging.getLogger(__name__)

ALONE_TOKENS = 2_000  # maximum of an answer outside of conversations, with the model's thinking
APART = "\n\n"  # between the texts before and after tool calls
SECOND_SHARE = 0.5  # share of the window after a model refused a prompt that should have fit
# Shares of the window, and whether tools are sent, until a request fits. The last one is tried with
# small windows only.
TRIES = ((1.0, True), (1.0, False), (SECOND_SHARE, True), (SECOND_SHARE, False))


@final
@dataclass(slots=True, kw_only=True)
class _Asking:
    """An answer that is being received. `start`: its beginning in the turn's text."""

    turn: Turn
    reply: Reply
    words: ModelText
    final: bool
    start: int
    tries: list[tuple[float, bool]] = field(default_factory=lambda: [*TRIES])
    request: ModelRequest | None = None
    is_answered: bool = False
    used: list[CallUsage] = field(default_factory=list[CallUsage])

    @property
    def has_begun(self) -> bool:
        """Whether the request must not be repeated: text was shown, or a run paid for it."""
        is_run = self.turn.session.kind != "chat"
        return bool(self.reply.text or self.reply.calls or (self.used and is_run))

    def show(self, events: list[Event]) -> list[Event]:
        """Adds the text of events to the turn's text. Returns the events that a person is shown."""
        answer = self.turn.answer
        shown: list[Event] = []
        for event in events:
            if isinstance(event, Token):
                text = self.turn.text
                if len(answer) == self.start and text and not text[-1].isspace():
                    answer.append(APART)
                    shown.append(Token(text=APART))
                answer.append(event.text)
            elif isinstance(event, TextTakenBack):
                del answer[self.start :]
            if not (self.final and isinstance(event, ToolStarted)):
                shown.append(event)
        return shown


@final
class ModelCaller:
    """One model with its tools, for the turns of one workspace."""

    def __init__(
        self,
        provider: LLMProvider,
        box: ToolBox,
        source: GraphDataSource,
        *,
        meter: UsageMeter,
        pricing: Callable[[], Pricing],
        history_turns: int = history.KEPT_TURNS,
        second_look: bool = False,
        temperature: float | None = None,
        habits: ThinkingMemory | None = None,
    ) -> None:
        """`pricing` returns the prices of the provider, which may change. `temperature`: see
        `PromptWriter`. `habits`: shared with other callers.
        """
        self.provider = provider
        self._box = box
        self._source = source
        self._meter = meter
        self._pricing = pricing
        self._history_turns = history_turns
        self._second_look = second_look
        self._habits = habits or ThinkingMemory()
        self.prompts = PromptWriter(
            provider, box, history_turns=history_turns, temperature=temperature
        )

    def with_model(self, provider: LLMProvider, pricing: Pricing) -> ModelCaller:
        """Returns a caller of another model with the same tools."""
        return ModelCaller(
            provider,
            self._box,
            self._source,
            meter=self._meter,
            pricing=lambda: pricing,
            history_turns=self._history_turns,
            second_look=self._second_look,
            habits=self._habits,
        )

    def with_tools(
        self,
        box: ToolBox,
        provider: LLMProvider | None = None,
        pricing: Callable[[], Pricing] | None = None,
        *,
        temperature: float | None = None,
    ) -> ModelCaller:
        """Returns a caller with other tools, without second looks, and with another model if one
        is given.
        """
        return ModelCaller(
            provider or self.provider,
            box,
            self._source,
            meter=self._meter,
            pricing=pricing or self._pricing,
            history_turns=self._history_turns,
            temperature=temperature,
            habits=self._habits,
        )

    async def ask(self, turn: Turn, *, final: bool) -> AsyncGenerator[Event]:
        """Yields the text of the model's answer and its usage, and fills `turn.reply`.

        A `final` answer is one without tools: its calls are dropped. Raises: ModelError,
        WindowTooSmall; `turn.reply` then holds the text so far.
        """
        asking = self._begin(turn, final=final)
        reply = asking.reply
        await self._read_always_sent(turn)
        began = time.perf_counter()
        try:
            while not asking.is_answered:
                request = self._fit(asking)
                async with self._streamed(asking, request) as (call, chunks):
                    async for chunk in chunks:
                        call.feed(chunk)
                        for event in asking.show(await reply.feed(chunk)):
                            yield event
                        if reply.is_full:
                            break
                    asking.is_answered = True
            for event in await self._end(asking):
                yield event
        except ModelError as exc:
            if not isinstance(exc, ModelContextTooLong):
                for event in asking.show(await reply.broken()):
                    yield event
            raise
        finally:
            usage = self._add_usage(asking, began)
        yield usage
        if final:
            reply.calls.clear()
        for text in self._missing(turn, reply, final=final):
            reply.text += text
            turn.answer.append(text)
            yield Token(text=text)

    def _begin(self, turn: Turn, *, final: bool) -> _Asking:
        """Returns an empty answer, which is the turn's reply from now on."""
        call_ids = {call.id for call in history.calls_of(turn.messages)}
        held = self._habits.may_begin(self.provider, can_take_back=_is_terminal(turn.person))
        words = ModelText(self._box.names, holds_beginning=held)
        reply = Reply(LinkFilter(self._source, turn.graph_key), words, taken=call_ids)
        turn.start_reply(reply)
        return _Asking(turn=turn, reply=reply, words=words, final=final, start=len(turn.answer))

    async def _read_always_sent(self, turn: Turn) -> None:
        """Reads the nodes that every prompt contains, if the turn was not opened here."""
        if turn.always_sent is not None:
            return
        graph = await self._source.get_graph(turn.graph_key)
        message = await write_always_sent(
            self._source, graph, language=turn.language, budget=self.prompts.always_tokens
        )
        turn.set_always_sent(message)

    def _fit(self, asking: _Asking) -> ModelRequest:
        """Returns the next request that fits into the window. Raises: WindowTooSmall."""
        while True:
            share, with_tools = asking.tries.pop(0)
            try:
                asking.request = self.prompts.request(
                    asking.turn, share=share, with_tools=with_tools, final=asking.final
                )
            except history.WindowTooSmall as exc:
                if not self._may_retry(asking, exc):
                    raise
            else:
                return asking.request

    @asynccontextmanager
    async def _streamed(
        self, asking: _Asking, request: ModelRequest
    ) -> AsyncGenerator[tuple[CallTally, AsyncGenerator[Chunk]]]:
        """Streams the answer to a request in the block, and meters it.

        Suppresses ModelContextTooLong if a shorter request may be sent.
        """
        stream = self.provider.stream(request.messages, request.tools, request.options)
        metered = metered_call(
            self.provider,
            request,
            self._meter,
            self._pricing(),
            payer=asking.turn.payer,
            used=asking.used,
        )
        try:
            async with metered as call, aclosing(stream) as chunks:
                yield call, chunks
        except ModelContextTooLong as exc:
            # The server counts tokens otherwise than we do.
            asking.tries = [one for one in asking.tries if one[0] == SECOND_SHARE]
            if not self._may_retry(asking, exc):
                raise

    def _may_retry(self, asking: _Asking, exc: Exception) -> bool:
        """Returns whether a shorter request may be sent."""
        if not self.prompts.is_small:
            asking.tries = [one for one in asking.tries if one != TRIES[-1]]
        if not asking.tries or asking.has_begun:
            return False
        facts = {"thread_id": asking.turn.thread_id, "model": self.provider.model}
        log.info("prompt_shortened", extra=facts | {"error": type(exc).__name__})
        return True

    async def _end(self, asking: _Asking) -> list[Event]:
        """Ends a complete answer. Returns the events that a person is shown."""
        events = asking.show(await asking.reply.end())
        if described := self._described(asking):
            events += asking.show(asking.reply.take_described(described))
        self._habits.note(self.provider, asking.words)
        return events

    def _add_usage(self, asking: _Asking, began: float) -> UsageReported:
        """Adds the model calls of an answer to the turn. Returns the usage to report."""
        turn = asking.turn
        usage = _reported([*turn.take_second_look(), *asking.used])
        own = _reported(asking.used)
        turn.add_usage(own, provider=self.provider.name, model=self.provider.model)
        failed = not asking.is_answered
        turn.trace.asked(asking.request, own, self.provider, began, failed=failed)
        return usage

    def _described(self, asking: _Asking) -> list[WrittenCall]:
        """Returns the proposals that an answer describes, if the person asked for a change.

        A proposal changes nothing before it is approved, so the description is made one.
        """
        turn = asking.turn
        reply = asking.reply
        request = asking.request
        if (
            request is None
            or asking.final
            or reply.calls
            or reply.finish == "length"
            or turn.session.kind != "chat"
            or turn.proposed
            or not requests_change(turn.conversation.asked)
        ):
            return []
        offered = (str(schema["function"]["name"]) for schema in request.tools)
        tools = [name for name in offered if (t := self._box.get(name)) and t.effect == "proposes"]
        calls = read_described_calls(reply.text, tools)
        if not all(self._box.accepts(call.name, call.arguments) for call in calls):
            return []
        was_read = any(turn.conversation.was_read(call.arguments) for call in calls)
        return [] if was_read else calls

    async def answer_alone(
        self, messages: Sequence[Message], payer: Payer
    ) -> tuple[str, UsageReported]:
        """Returns the answer to messages outside of any conversation, without tools.

        Raises: ModelError, UsageLimitReached.
        """
        request = ModelRequest(
            messages=messages, tools=(), options=ModelOptions(max_tokens=ALONE_TOKENS)
        )
        used: list[CallUsage] = []
        metered = metered_call(
            self.provider, request, self._meter, self._pricing(), payer=payer, used=used
        )
        async with metered as call:
            answer = await complete(
                self.provider, messages, options=request.options, on_chunk=call.feed
            )
        return answer.text, _reported(used)

    def second_look(self, turn: Turn, retriever: Retriever) -> SecondLook | None:
        """Returns a retriever whose results the model assesses; None if that is not configured, or
        the model cannot.
        """
        if not self._second_look or self.prompts.is_small or self.provider.name == OFFLINE:
            return None
        return SecondLook(
            retriever=retriever,
            provider=self.provider,
            meter=self._meter,
            pricing=self._pricing(),
            payer=turn.payer,
            language=turn.language,
        )

    def report_second_look(self, turn: Turn, look: SecondLook) -> None:
        """Adds the model call of a second look to the usage and the trace of the turn."""
        turn.set_second_look(look.used)
        if look.used:
            usage = _reported(look.used)
            turn.add_usage(usage, provider=self.provider.name, model=self.provider.model)
            began = time.perf_counter() - look.ms / 1000
            turn.trace.asked(None, usage, self.provider, began, failed=bool(look.failed))

    async def prepare(self) -> None:
        """Reads the model's window from its server, if the server reports it."""
        if isinstance(self.provider, LearnsWindow):
            await self.provider.learn_window()

    def _missing(self, turn: Turn, reply: Reply, *, final: bool) -> list[str]:
        """Returns sentences to add to the answer: that it was cut off, or that nothing changed."""
        if reply.finish == "length" and not reply.calls:
            return [("\n\n" if reply.text else "") + turn.phrase("cut_off")]
        if (
            not reply.calls
            and not turn.proposed
            and claims_change(reply.text, turn.conversation.asked)
        ):
            return ["\n\n" + turn.phrase("nothing_changed")]
        if (failed := turn.failed_twice) is not None and final:
            sentence = turn.phrase(
                "failed_twice", tool=failed.call.name[:100], error=failed.last_problem
            )
            return [("\n\n" if reply.text else "") + sentence]
        if not final or reply.text.strip():
            return []
        return [turn.phrase("no_usable_answer" if turn.corrections else "no_answer")]


def _is_terminal(person: Person) -> bool:
    """Returns whether the person reads in a terminal, where shown text can be taken back."""
    return person.client is not None and person.client.channel == "cli"


def _reported(calls: list[CallUsage]) -> UsageReported:
    """Returns the sum of the model calls of one answer."""
    sums = {name: sum(getattr(call.tokens, name) for call in calls) for name in TOKENS}
    costs = [call.cost_usd for call in calls]
    priced = [cost for cost in costs if cost is not None]
    return UsageReported(
        **sums,
        cost_usd=sum(priced) if len(priced) == len(costs) else None,
        estimated=any(call.estimated for call in calls),
    )
