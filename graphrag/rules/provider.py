"""The provider without a language model: rules behind the interface of a real one.

Decision: it keeps nothing between calls. What it needs to know stands in the messages, so a turn
goes on after a restart, on another server, or after a person decided a proposal days later.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, cast

from graphrag.llm.base import (
    DEFAULT_OPTIONS,
    Chunk,
    Finished,
    Identified,
    Message,
    ModelOptions,
    TextDelta,
    ToolCall,
    ToolCallReady,
    ToolCallStarted,
    ToolSchema,
    UsageReport,
)
from graphrag.rules import change_requests, creating, graph_answers, node_answers
from graphrag.rules.automation_run import FINISH, finished, task_step
from graphrag.rules.conversation import Conversation, read_conversation
from graphrag.rules.patterns import grammar, understand
from graphrag.rules.turn_state import GraphNamed, NotNamed, RulesStep, RulesTurn, outcome_lines, run

HANDLERS: Mapping[str, Callable[[RulesTurn], str]] = {
    handler.__name__: handler
    for handler in (
        *(graph_answers.describe_graph, graph_answers.count, graph_answers.list_nodes),
        *(graph_answers.list_types, graph_answers.search),
        *(node_answers.describe_node, node_answers.show_field, node_answers.neighbors, node_answers.path),
        *(change_requests.connect, change_requests.delete_node, change_requests.delete_edge),
        *(change_requests.rename, change_requests.set_field, change_requests.move, change_requests.tidy),
        creating.create,
    )
}
"""What answers each intent of the patterns; the other intents are the names of texts."""


class RulesProvider(Identified):
    """Answers by rules from what the tools return."""

    def __init__(self) -> None:
        super().__init__(name="offline", model="rules", context_window=1_000_000)

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        """Yield the answer, or the calls of the tools that it needs first.

        Costs no tokens: the usage reported is zero. Raises nothing.
        """
        offered = frozenset[str]() if options.tool_choice == "none" else _names(tools)
        conversation = read_conversation(messages)
        step = next_step(conversation, offered)
        text = _with_notice(step, conversation)
        if text:
            yield TextDelta(text=text)
        made = [(f"rules_{secrets.token_hex(12)}", *call.signature) for call in step.calls]
        calls = [ToolCall(id=key, name=name, arguments=arguments) for key, name, arguments in made]
        for index, call in enumerate(calls):
            yield ToolCallStarted(index=index, id=call.id, name=call.name)
        for index, call in enumerate(calls):
            yield ToolCallReady(index=index, call=call)
        yield UsageReport()
        yield Finished(reason="tool_calls" if calls else "stop")

    async def aclose(self) -> None:
        """Nothing is held open."""


def _names(tools: Sequence[ToolSchema]) -> frozenset[str]:
    functions: list[Any] = [tool.get("function") for tool in tools]
    names = [cast(Mapping[str, Any], f).get("name") for f in functions if isinstance(f, Mapping)]
    return frozenset(name for name in names if isinstance(name, str))


def _with_notice(step: RulesStep, conversation: Conversation) -> str:
    """Return the text; the first one of a conversation begins by saying that no model is at work."""
    notices = tuple(grammar(language).texts["notice"] for language in ("en", "fr"))
    is_said = any(text.startswith(notices) for text in conversation.texts)
    notice = grammar(conversation.language).texts["notice"]
    return step.text if is_said or not step.text else f"{notice}\n\n{step.text}"


def next_step(conversation: Conversation, offered: frozenset[str]) -> RulesStep:
    """Return the next step of the turn. Never raises for what a person, a tool or a graph may say."""
    first = conversation.language
    languages = (first, "en" if first == "fr" else "fr")
    requests = understand(conversation.question, languages, conversation.graph_name)
    turns = [RulesTurn(conversation, request, offered) for request in requests]
    proposals = [answer for (name, _), answer in conversation.answered.items() if name.startswith("propose_")]
    if (FINISH in offered or requests[0].intent == "search") and (step := task_step(turns[0])) is not None:
        return step
    if proposals:  # never a second proposal in a turn, whatever became of the first
        step = RulesStep(text="\n\n".join(outcome_lines(turns[0], answer) for answer in proposals))
    else:
        step = run(_answer, turns)
    is_over = FINISH in offered and not step.calls
    return finished(step.text, "findings" if proposals else "ok") if is_over else step


def _answer(turn: RulesTurn) -> str:
    intent = turn.request.intent
    if turn.request.is_command and not any(name.startswith("propose_") for name in turn.offered):
        return turn.say("no_write_tool")
    if intent not in HANDLERS:
        return turn.say(intent)
    try:
        return HANDLERS[intent](turn)
    except GraphNamed:
        return graph_answers.describe_graph(turn)
    except NotNamed:
        return graph_answers.search(turn)
