"""Runs the commands of a message's blocks and writes their results into one system message.

After a failed command, the other commands of its block are not run. A repeated command runs once.
All results together are limited to a budget of tokens.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

from graphrag.commands.data_commands import READERS, CommandPlace, DataCommand
from graphrag.i18n import Language, text
from graphrag.llm.base import SystemMessage
from graphrag.llm.tokens import count_tokens
from tools.base import ToolResult
from tools.compact import cut, cut_name

CommandStatus = Literal["SUCCESS", "FAILED", "CANCELLED", "CACHED"]
# Runs a read under the limits of model calls, and returns an error for any failure.
Guard = Callable[[str, Awaitable[ToolResult]], Awaitable[ToolResult]]

SUMMARY_CHARS = 300
ERROR_CHARS = 500
KEY_CHARS = 60
_LEAST_TOKENS = 20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of one command. Units: `ms` milliseconds, `tokens` of its text for the model."""

    command_id: str
    title: str
    status: CommandStatus
    text: str = ""
    tokens: int = 0
    ms: int = 0
    error: str = ""
    is_cut: bool = False

    def to_document(self) -> dict[str, Any]:
        """Returns the stored form, without the text, which is in the message's data."""
        document = {
            "commandId": self.command_id,
            "title": self.title,
            "status": self.status,
            "ms": self.ms,
            "tokens": self.tokens,
        }
        return document | ({"error": self.error} if self.error else {})


async def execute(
    cascades: Sequence[Sequence[DataCommand]], place: CommandPlace, guard: Guard, *, budget: int
) -> list[CommandResult]:
    """Returns the results in order. An entry of `cascades` is one block. Units:
    `budget` in tokens.
    """
    known: dict[str, CommandResult] = {}
    results: list[CommandResult] = []
    for cascade in cascades:
        failed = False
        for command in cascade:
            if failed:
                result = _result(command, place.context.language, "CANCELLED")
            elif command.id in known:
                result = _again(known[command.id])
            else:
                result = known[command.id] = await _run(command, place, guard)
            failed = failed or result.status == "FAILED"
            results.append(result)
    return _within(results, budget, place.context.language)


async def _run(command: DataCommand, place: CommandPlace, guard: Guard) -> CommandResult:
    language = place.context.language
    began = time.perf_counter()
    found = await guard(command.type, READERS[command.type](command.params, place))
    ms = round((time.perf_counter() - began) * 1e3)
    if found.error is not None:
        why = "; ".join(problem.what for problem in found.error.problems)
        return replace(_result(command, language, "FAILED"), error=cut(why, ERROR_CHARS), ms=ms)
    said = found.text.strip() or text("command_empty", language)
    return replace(_result(command, language, "SUCCESS"), text=said, ms=ms)


def _result(command: DataCommand, language: Language, status: CommandStatus) -> CommandResult:
    named = next((command.params[k] for k in _NAMING if k in command.params), "")
    said = text(f"command_{command.type}", language, what=cut_name(named, KEY_CHARS)).strip()
    return CommandResult(command_id=command.id, title=said, status=status)


_NAMING = ("node", "nodeType", "edge", "sheet", "graph")


def _again(result: CommandResult) -> CommandResult:
    """Returns the result of a repeated command, which refers to the first result."""
    if result.status != "SUCCESS":
        return replace(result, ms=0)
    return replace(result, status="CACHED", text="", ms=0)


def _within(
    results: Sequence[CommandResult], budget: int, language: Language
) -> list[CommandResult]:
    """Returns the results with their tokens, with texts cut to the budget, the last ones first."""
    made: list[CommandResult] = []
    left = budget
    for result in results:
        tokens = count_tokens(result.text) if result.text else 0
        if tokens > left:
            result = replace(result, text=_cut(result.text, tokens, left, language), is_cut=True)
            tokens = count_tokens(result.text)
        left = max(0, left - tokens)
        made.append(replace(result, tokens=tokens))
    return made


def _cut(said: str, tokens: int, left: int, language: Language) -> str:
    """Returns the text cut to a number of tokens, with a note that it was cut."""
    note = text("command_cut", language)
    chars: int = len(said)
    while left > _LEAST_TOKENS and tokens > left - _LEAST_TOKENS and chars:
        chars = int(min(chars - 1, chars * max(left - _LEAST_TOKENS, 1) // tokens))
        tokens = count_tokens(said[:chars])
    return f"{said[:chars]}\n{note}" if left > _LEAST_TOKENS else note


def data_added(results: Sequence[CommandResult], head: str, language: Language) -> SystemMessage:
    """Returns the message with results for the model and people. `head`: its heading."""
    parts = [head]
    for result in results:
        said = result.text or text(f"command_is_{result.status}", language, why=result.error)
        parts.append(f"## {result.title}\n{said}")
    return SystemMessage(
        content="\n\n".join(parts),
        stable=False,
        kind="DATA_ADDED",
        summary=summary_of(results, language),
        results=tuple(result.to_document() for result in results),
    )


def summary_of(results: Sequence[CommandResult], language: Language) -> str:
    """Returns a summary for people: the data that were read, the failures, and the cuts."""
    read = [result.title for result in results if result.status == "SUCCESS"]
    parts = [text("data_added", language, titles=", ".join(read))] if read else []
    failed = [f"{result.title}: {result.error}" for result in results if result.status == "FAILED"]
    parts += [text("data_failed", language, titles="; ".join(failed))] if failed else []
    for status in ("CANCELLED", "CACHED"):
        count = sum(result.status == status for result in results)
        parts += [text(f"data_{status}", language, n=count)] if count else []
    parts += [text("data_cut", language)] if any(result.is_cut for result in results) else []
    return cut_name(" ".join(parts), SUMMARY_CHARS)
