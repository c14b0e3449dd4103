"""Asks the model for a turn: makes its conversation fit, counts what is used, refuses empty answers."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from datasources.base import GraphDataSource
from graphrag.events import Event, Token, ToolStarted, UsageReported
from graphrag.history import calls_of
from graphrag.providers.base import LLMProvider, Message, ModelOptions, SystemMessage, ToolSchema
from graphrag.providers.errors import ModelContextTooLong, ModelEmptyReply
from graphrag.providers.metered import MeteredProvider
from graphrag.providers.prices import Pricing
from graphrag.turn.links import GraphTargets, LinkTargets
from graphrag.turn.model_step import Reply, Request, ask
from graphrag.turn.running import RunningTurn
from graphrag.turn.window import fitted, prompt_tokens, room
from graphrag.usage import Totals, UsageMeter
from tools.base import Role, ToolBox

log = logging.getLogger(__name__)

APART = "\n\n"
"""Between what a model says before and after it called something."""

TOOLS_SHARE = 0.5
"""Of the room for a prompt, for tools at most: a small window is offered fewer of them."""

SECOND_SHARE = 0.5
"""Of the window, for the second try after a model refused a prompt that should have fit."""


@dataclass(frozen=True, slots=True)
class _Offered:
    schemas: tuple[ToolSchema, ...]
    tokens: int


class Asker:
    """One model with its tools, for the turns of one workspace."""

    def __init__(
        self,
        provider: LLMProvider,
        box: ToolBox,
        source: GraphDataSource,
        *,
        meter: UsageMeter,
        pricing: Pricing,
    ) -> None:
        self.provider = provider
        self._box, self._source, self._meter, self._pricing = box, source, meter, pricing
        self._offered: dict[Role, _Offered] = {}

    async def ask(self, turn: RunningTurn, *, final: bool) -> AsyncGenerator[Event]:
        """Yield what the model says and what it used; `turn.reply` is filled.

        A `final` answer is one without tools: what is called in it all the same is forgotten.
        Raises: ModelError, UsageLimitReached, WindowTooSmall.
        """
        reply = turn.reply = Reply(taken={call.id for call in calls_of(turn.messages)})
        before = self._meter.of_thread(turn.thread_id)
        try:
            async with aclosing(self._stream(turn, reply, final=final)) as events:
                async for event in events:
                    if isinstance(event, Token):
                        if reply.text == event.text and turn.text and not turn.text[-1].isspace():
                            turn.answer.append(APART)
                            yield Token(text=APART)
                        turn.answer.append(event.text)
                    if not (final and isinstance(event, ToolStarted)):
                        yield event
        finally:
            usage = _difference(before, self._meter.of_thread(turn.thread_id))
            turn.used(usage, provider=self.provider.name, model=self.provider.model)
        yield usage
        if final:
            reply.calls.clear()
        for text in self._missing(turn, reply, final=final):
            reply.text += text
            turn.answer.append(text)
            yield Token(text=text)

    def _missing(self, turn: RunningTurn, reply: Reply, *, final: bool) -> list[str]:
        """Return what has to be said in the model's place. Raises: ModelEmptyReply."""
        if reply.finish == "length" and not reply.calls:
            return [("\n\n" if reply.text else "") + turn.phrase("cut_off")]
        if reply.text.strip() or reply.calls or reply.leaked:
            return [] if reply.text.strip() or not final else [turn.phrase("no_answer")]
        if final:
            return [turn.phrase("no_answer")]
        raise ModelEmptyReply(provider=self.provider.name, reason="neither text nor a tool call")

    async def _stream(self, turn: RunningTurn, reply: Reply, *, final: bool) -> AsyncGenerator[Event]:
        provider = MeteredProvider(self.provider, self._meter, self._pricing, thread=turn.thread_id)
        offered = self._tools(turn.person.role)
        targets = GraphTargets(self._source, turn.graph_key)
        for share in (1.0, SECOND_SHARE):
            request = self._request(turn, offered, targets, share=share, final=final)
            try:
                async with aclosing(ask(provider, request, reply)) as events:
                    async for event in events:
                        yield event
            except ModelContextTooLong:
                if share == SECOND_SHARE or reply.text or reply.calls:
                    raise
                log.info("prompt_shortened", extra={"thread_id": turn.thread_id, "model": provider.model})
            else:
                return

    def _request(
        self, turn: RunningTurn, offered: _Offered, targets: LinkTargets, *, share: float, final: bool
    ) -> Request:
        limit = room(self.provider.context_window, share=share) - offered.tokens
        messages: list[Message] = fitted(turn.messages, limit)
        if final or turn.told:
            note = turn.phrase("final" if final else "after_outcome")
            messages.append(SystemMessage(content=note, stable=False))
        # The tools stay in a final request: formats refuse calls of tools they are not told of.
        options = ModelOptions(tool_choice="none") if final else ModelOptions()
        return Request(messages=messages, tools=offered.schemas, options=options, targets=targets)

    def _tools(self, role: Role) -> _Offered:
        if role not in self._offered:
            self._offered[role] = _fitting(
                [(tool.schema(), tool.writes) for tool in self._box.offered(role)],
                int(room(self.provider.context_window) * TOOLS_SHARE),
            )
        return self._offered[role]


def _fitting(tools: Sequence[tuple[ToolSchema, bool]], limit: int) -> _Offered:
    """Return the tools that `limit` tokens hold: those that read first, then the shortest that write."""
    sizes = [prompt_tokens((), [schema]) for schema, _ in tools]
    kept: set[int] = set()
    total = 0
    for place in sorted(range(len(tools)), key=lambda i: (tools[i][1], sizes[i])):
        if total + sizes[place] <= limit:
            kept.add(place)
            total += sizes[place]
    if len(kept) < len(tools):
        log.warning("tools_left_out", extra={"offered": len(kept), "of": len(tools), "tokens": limit})
    return _Offered(tuple(schema for i, (schema, _) in enumerate(tools) if i in kept), total)


def _difference(before: Totals, after: Totals) -> UsageReported:
    unpriced = after.unpriced > before.unpriced
    return UsageReported(
        prompt=after.prompt - before.prompt,
        completion=after.completion - before.completion,
        cached=after.cached - before.cached,
        cost_usd=None if unpriced else after.cost_usd - before.cost_usd,
        estimated=after.estimated > before.estimated,
    )
