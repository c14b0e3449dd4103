"""Answers of the double of the Realtime server by a script."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from graphrag.llm.errors import ModelFailed
from graphrag.simulator.minds import CallsTool, Item, Reply, Says


class ScriptedMind:
    """Answers by a script: each response takes the next entry; `again`: it begins
    again at its end.
    """

    def __init__(
        self, script: Iterable[Reply | Says | CallsTool | str], *, again: bool = False
    ) -> None:
        self.left = deque(_reply(entry) for entry in script)
        self._again = again

    async def reply(self, instructions: str, items: Sequence[Item], tools: Sequence[Item]) -> Reply:
        if not self.left:
            raise ModelFailed(provider="script", reason="it has no answer left")
        reply = self.left.popleft()
        if self._again:
            self.left.append(reply)
        return reply


def _reply(entry: Reply | Says | CallsTool | str) -> Reply:
    if isinstance(entry, str):
        return (Says(entry),)
    return (entry,) if isinstance(entry, Says | CallsTool) else tuple(entry)
