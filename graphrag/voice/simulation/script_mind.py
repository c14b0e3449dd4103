"""The model's part of a simulated call: the answers that a script gives, else those of another mind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphrag.voice.realtime.minds import Mind, RealtimeConversation, Reply, Says, words_of
from graphrag.voice.simulation.call_script import CallScript, CallStep


class ScriptMind:
    """Answers the lines of a script as it says, in order; `otherwise` answers what it says nothing about."""

    def __init__(self, script: CallScript, otherwise: Mind) -> None:
        self._script, self._otherwise = script, otherwise

    async def reply(self, conversation: RealtimeConversation, tools: Sequence[Mapping[str, Any]]) -> Reply:
        items = conversation.items
        greeting, lines = self._script.greeting, self._script.lines
        is_first = not any(item.get("role") == "assistant" or words_of(item) in lines for item in items)
        if greeting is not None and is_first:
            return (Says(greeting),)
        step, answered = self._place(items)
        if step is not None and answered < len(step.replies):
            return (step.replies[answered].made(),)
        return await self._otherwise.reply(conversation, tools)

    def _place(self, items: Sequence[Mapping[str, Any]]) -> tuple[CallStep | None, int]:
        """Return the step that is to be answered, None for what the script does not know, and how many
        answers it has had. A note of the service belongs to the next decision."""
        left = [step for step in self._script.steps if step.say is not None or step.decide is not None]
        last, answered = None, 0
        for item in items:
            role = item.get("role")
            if role in ("user", "system"):
                words = words_of(item)
                fits = [s for s in left if (s.decide is not None if role == "system" else s.say == words)]
                last, answered = (fits[0] if fits else None), 0
                if last is not None:
                    del left[: left.index(last) + 1]
            elif item.get("type") == "function_call" or role == "assistant":
                answered += 1
        return last, answered
