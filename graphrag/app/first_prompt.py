"""The prompt that the settings' model would be sent for the first question of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from graphrag.agent import prompt_budget
from graphrag.agent.change_words import asks_for_change
from graphrag.app.models import open_model
from graphrag.app.wiring import Services
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.prepared_prompt import PreparedPrompt, prepare_prompt
from tools.base import Role, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPrompt:
    """A prompt and its tools. Units: `window`, the context window of the model, in tokens."""

    prepared: PreparedPrompt
    tools: Sequence[Tool[Any]]
    window: int

    @property
    def tool_tokens(self) -> int:
        """The tokens of the schemas of the tools."""
        return count_tokens(orjson.dumps([tool.schema() for tool in self.tools]).decode())

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.prepared.as_dict(),
            "tool_schema_tokens": self.tool_tokens,
            "tools": [tool.name for tool in self.tools],
            "window": self.window,
        }


async def first_prompt(services: Services, graph: str, question: str, role: Role) -> FirstPrompt:
    """Returns the prompt for a question about a graph. Calls no model, but may ask its server for
    the size of the context window.

    Raises: GraphNotFound, PromptError, SettingsError.
    """
    async with open_model(services.settings, embedder=services.embedder) as model:
        await model.provider.learn_window()
        window = model.provider.context_window
    offered = services.box.offered(role)
    sizes = [prompt_budget.size_of(tool) for tool in offered]
    changing = asks_for_change(question)

    def shares(taken: int, wanted: int) -> prompt_budget.Shares:
        return prompt_budget.share_out(window, sizes, taken=taken, wanted=wanted, changing=changing)

    question_tokens = count_tokens(question)
    prepared = await prepare_prompt(
        services.source,
        services.retriever,
        graph,
        question,
        role=role,
        options=services.context_options,
        compact=prompt_budget.is_small(window),
        context_room=lambda taken, wanted: shares(taken + question_tokens, wanted).context,
    )
    sent = shares(sum(tokens for _, _, tokens in prepared.messages), 0)
    return FirstPrompt(prepared=prepared, tools=[offered[i] for i in sent.tools], window=window)
