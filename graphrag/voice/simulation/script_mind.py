"""The model's part of a simulated call: the answers that a script gives, else those of another mind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphrag.voice.realtime.minds import Mind, RealtimeConversation, Reply, Says, words_of
from graphrag.voice.simulation.call_script import CallScript


class ScriptMind:
    """Answers the lines of a script as it says, in order; `otherwise` answers what it says nothing about."""

    def __init__(self, script: CallScript, otherwise: Mind) -> None:
        self._script, self._otherwise = script, otherwise

    async def reply(self, conversation: RealtimeConversation, tools: Sequence[Mapping[str, Any]]) -> Reply:
        items = conversation.items
        greeting = self._script.greeting
        if greeting is not None and not any(item.get("role") == "assistant" for item in items):
            return (Says(greeting),)
        given, answered = self._place(items)
        if given is not None and answered < len(given):
            return (given[answered],)
        return await self._otherwise.reply(conversation, tools)

    def _place(self, items: Sequence[Mapping[str, Any]]) -> tuple[Reply | None, int]:
        """Return the answers to the caller's last line, and how many of them were given.

        Nothing where something else was said to the model since, as how a proposal was decided.
        """
        lines, heard, answered = self._script.lines, 0, 0
        last: int | None = None
        for item in items:
            kind, role = item.get("type"), item.get("role")
            if role == "user" and heard < len(lines) and words_of(item) == lines[heard]:
                last, answered, heard = heard, 0, heard + 1
            elif role in ("user", "system"):
                last = None
            elif kind == "function_call" or role == "assistant":
                answered += 1
        return (None if last is None else self._script.replies_to(last)), answered
