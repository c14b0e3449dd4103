"""Writes the request of a turn's next model call: conversation and tools within the window."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from graphrag.agent import history, prompt_budget
from graphrag.agent.change_words import asks_for_change
from graphrag.agent.turn import Turn
from graphrag.llm.base import (
    AssistantMessage,
    LLMProvider,
    Message,
    ModelOptions,
    SystemMessage,
    ToolMessage,
    ToolSchema,
    UserMessage,
    is_stable,
)
from graphrag.llm.metered import ModelRequest
from graphrag.llm.tokens import count_tokens, prompt_tokens
from graphrag.prompts.library import run_occurrence
from graphrag.retrieval.always_sent import ALWAYS_TOKENS
from tools.base import Role, SessionKind
from tools.tool_box import ToolBox

log = logging.getLogger(__name__)

ALWAYS_SHARE = 0.25  # maximum share of the prompt for the nodes that are always sent
SMALL_TEMPERATURE = 0.1  # for small windows: local servers sample at 0.7 to 1 by default
CALLS_LEFT_NOTED = 5  # model calls of a run; with fewer left, the prompt says how many


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Offered:
    schemas: tuple[ToolSchema, ...] = ()
    tokens: int = 0


@final
class PromptWriter:
    """Writes the requests to one model with its tools. `temperature` None: the model's default, or
    SMALL_TEMPERATURE.
    """

    def __init__(
        self,
        provider: LLMProvider,
        box: ToolBox,
        *,
        history_turns: int,
        temperature: float | None,
    ) -> None:
        self._provider = provider
        self._box = box
        self._history_turns = history_turns
        self._temperature = temperature
        self._sizes: dict[
            tuple[Role, SessionKind, frozenset[str]],
            list[tuple[ToolSchema, prompt_budget.ToolSize]],
        ] = {}

    def request(self, turn: Turn, *, share: float, with_tools: bool, final: bool) -> ModelRequest:
        """Returns the request for a turn, in a share of the window. Raises: WindowTooSmall."""
        offered = self._offered(turn) if with_tools else _Offered()
        limit = (
            prompt_budget.prompt_room(self._provider.context_window, share=share) - offered.tokens
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

    def _offered(self, turn: Turn) -> _Offered:
        """Returns the tools of a turn that fit into its window."""
        tools = self._sized_tools(turn)
        lead_tokens = prompt_tokens(
            [*history.ConversationParts.of(turn.messages).lead, *turn.conversation.opening]
        )
        shares = prompt_budget.share_out(
            self._provider.context_window,
            [size for _, size in tools],
            taken=lead_tokens,
            wanted=0,
            changing=turn.conversation.asks_for_change,
            sees_all=turn.conversation.sees_whole_graph
            and (turn.conversation.asks_for_change or not history.calls_of(turn.messages)),
        )
        kept = [tools[i] for i in shares.tools]
        if len(kept) < len(tools):
            log.debug("tools_left_out", extra={"offered": len(kept), "of": len(tools)})
        return _Offered(
            schemas=tuple(schema for schema, _ in kept), tokens=sum(size.tokens for _, size in kept)
        )

    @property
    def is_small(self) -> bool:
        """Whether the window has room only for short instructions and the essential tools."""
        return prompt_budget.is_small(self._provider.context_window)

    @property
    def always_tokens(self) -> int:
        """Maximum tokens of the nodes that are always sent; 0 with a small window."""
        room_for_all = prompt_budget.prompt_room(self._provider.context_window)
        return 0 if self.is_small else min(ALWAYS_TOKENS, int(room_for_all * ALWAYS_SHARE))

    def context_room(self, turn: Turn, system_tokens: int, message: str, wanted: int) -> int:
        """Returns the budget of a message's context, at most `wanted`. Units: tokens."""
        return prompt_budget.share_out(
            self._provider.context_window,
            [size for _, size in self._sized_tools(turn)],
            taken=system_tokens + count_tokens(message),
            wanted=wanted,
            changing=turn.conversation.asks_for_change or asks_for_change(message),
        ).context

    def _sized_tools(self, turn: Turn) -> list[tuple[ToolSchema, prompt_budget.ToolSize]]:
        """Returns the tools that a turn is offered, with their sizes."""
        key = (turn.role, turn.session.kind, turn.features)
        if key not in self._sizes:
            self._sizes[key] = [
                (tool.schema(), prompt_budget.size_of(tool)) for tool in self._box.offered(*key)
            ]
        return self._sizes[key]


def _phrase_of(turn: Turn, *, final: bool) -> str | None:
    """Returns the name of the phrase about the next answer; None if it needs none."""
    if final:
        return "final"
    of_run = "" if turn.run is None else "run_"
    if turn.has_outcomes:
        return f"{of_run}after_outcome"
    step = turn.conversation.last_step
    if not step:
        return None
    failed = any(answer.is_error for answer in step)
    return f"{of_run}{'after_error' if failed else 'after_reads'}"


def _notes(turn: Turn, phrase: str | None) -> list[SystemMessage]:
    """Returns the messages of the next request only."""
    notes = [] if turn.run is None else [run_occurrence(turn.run, turn.language)]
    if phrase is not None:
        is_answered = phrase != "final" and turn.run is None
        rules = {"rules": turn.phrase("answer_rules")} if is_answered else {}
        notes.append(turn.phrase(phrase, **rules))
    left = turn.calls_left
    if left == 0:
        notes.append(turn.phrase("last_call"))
    elif left is not None and left < CALLS_LEFT_NOTED:
        notes.append(turn.phrase("calls_left", calls=str(left + 1)))
    return [SystemMessage(content=note, stable=False, once=True) for note in notes]


def _log_prompt(messages: Sequence[Message], phrase: str | None) -> None:
    """Logs the size of the prompt by kind of message. Counts only if the level is enabled."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    system = [m for m in messages if isinstance(m, SystemMessage)]
    results = [m for m in messages if isinstance(m, ToolMessage)]
    calls = [call for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
    spoken = [m for m in messages if isinstance(m, UserMessage)]
    spoken += [replace(m, tool_calls=()) for m in messages if isinstance(m, AssistantMessage)]
    sizes = {
        "system": {"count": len(system), "tokens": prompt_tokens(system)},
        "history": {"count": len(spoken), "tokens": prompt_tokens(spoken)},
        "calls": {
            "count": len(calls),
            "tokens": prompt_tokens([AssistantMessage(tool_calls=tuple(calls))]),
        },
        "results": {"count": len(results), "tokens": prompt_tokens(results)},
    }
    log.debug("prompt_built", extra=sizes | {"phrase": phrase})
