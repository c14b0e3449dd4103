"""A text model that answers by the replies of a call script, for calls in which the model of chats
answers.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import final

from graphrag.agent.history import is_context
from graphrag.llm import base as llm
from graphrag.simulator.call_script import CallScript, scripted_reply
from graphrag.simulator.minds import CallsTool, Item


@final
class ScriptProvider:
    """An `LLMProvider`. `otherwise` answers where the script has no reply."""

    def __init__(self, script: CallScript, otherwise: llm.LLMProvider) -> None:
        self._script = script
        self._otherwise = otherwise
        self.name, self.model = otherwise.name, otherwise.model
        self.context_window = otherwise.context_window

    async def stream(
        self,
        messages: Sequence[llm.Message],
        tools: Sequence[llm.ToolSchema] = (),
        options: llm.ModelOptions = llm.DEFAULT_OPTIONS,
    ) -> AsyncGenerator[llm.Chunk]:
        """Yields the answer. Raises: ModelError."""
        reply = scripted_reply(self._script, list(_items(messages)))
        if reply is None:
            async for chunk in self._otherwise.stream(messages, tools, options):
                yield chunk
            return
        calls = [item for item in reply if isinstance(item, CallsTool)]
        for item in reply:
            if not isinstance(item, CallsTool):
                yield llm.TextDelta(text=item.text)
        for index, item in enumerate(calls):
            call = llm.ToolCall(
                id=f"script_{secrets.token_hex(8)}", name=item.name, arguments=item.arguments
            )
            yield llm.ToolCallStarted(index=index, id=call.id, name=call.name)
            yield llm.ToolCallReady(index=index, call=call)
        yield llm.UsageReport()
        yield llm.Finished(reason="tool_calls" if calls else "stop")

    async def aclose(self) -> None:
        """Closes the other provider."""
        await self._otherwise.aclose()


def _items(messages: Sequence[llm.Message]) -> Iterator[Item]:
    """Yields a conversation as items. A note before all words is the greeting, as if typed."""
    has_begun = False
    for message in messages:
        if llm.is_stable(message) or is_context(message):
            continue
        if isinstance(message, llm.ToolMessage):
            yield {"type": "function_call_output", "output": message.content}
            continue
        role = "user"
        if isinstance(message, llm.AssistantMessage):
            role = "assistant"
        elif isinstance(message, llm.SystemMessage) and has_begun:
            role = "system"
        has_begun = True
        if message.content:
            part = {"type": "input_text", "text": message.content}
            yield {"type": "message", "role": role, "content": [part]}
        if isinstance(message, llm.AssistantMessage):
            for call in message.tool_calls:
                yield {"type": "function_call", "name": call.name}
