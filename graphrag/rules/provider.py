"""The provider without a language model: rules behind the interface of a provider.

Decision: it has no state between calls. All it needs is in the messages, so a turn continues after
a restart, on another server, or after a proposal is decided days later.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace

from graphrag.i18n import LANGUAGES, Language
from graphrag.llm import base as llm
from graphrag.rules import change_requests, graph_answers, node_answers
from graphrag.rules.automation_run import FINISH, finished, task_step
from graphrag.rules.conversation import Conversation, read_conversation
from graphrag.rules.patterns import MAX_PARTS, UserRequest, grammar, understand
from graphrag.rules.spoken_notes import answer_to_note
from graphrag.rules.turn_state import GraphNamed, NotNamed, RulesStep, RulesTurn, outcome_lines, run

# The handler of each intent of the patterns. Other intents are names of texts.
HANDLERS: Mapping[str, Callable[[RulesTurn], str]] = {
    handler.__name__: handler
    for handler in (
        *(graph_answers.describe_graph, graph_answers.count, graph_answers.list_nodes),
        *(graph_answers.list_types, graph_answers.types_used, graph_answers.list_values),
        graph_answers.list_unconnected,
        *(node_answers.describe_node, node_answers.show_field, node_answers.neighbors),
        *(node_answers.failing, node_answers.path),
        *(change_requests.connect, change_requests.delete_node, change_requests.delete_edge),
        *(
            change_requests.rename,
            change_requests.set_field,
            change_requests.move,
            change_requests.tidy,
        ),
        *(change_requests.create, graph_answers.used_where, graph_answers.search),
    )
}


class RulesProvider:
    """Answers by rules from the results of tools. Units: `context_window` in tokens."""

    name, model, context_window = "offline", "rules", 1_000_000

    async def stream(
        self,
        messages: Sequence[llm.Message],
        tools: Sequence[llm.ToolSchema] = (),
        options: llm.ModelOptions = llm.DEFAULT_OPTIONS,
    ) -> AsyncGenerator[llm.Chunk]:
        """Yields the answer, or first the calls of the tools that it needs.

        Costs no tokens: the reported usage is zero. Raises nothing.
        """
        offered = frozenset(
            tool["function"]["name"] for tool in tools if options.tool_choice != "none"
        )
        conversation = read_conversation(messages)
        note = answer_to_note(messages, conversation.language)
        step = next_step(conversation, offered) if note is None else RulesStep(text=note)
        text = step.text if note is not None else _with_notice(step, conversation)
        if text:
            yield llm.TextDelta(text=text)
        identified = [(f"rules_{secrets.token_hex(12)}", *call.signature) for call in step.calls]
        calls = [
            llm.ToolCall(id=key, name=name, arguments=arguments)
            for key, name, arguments in identified
        ]
        for index, call in enumerate(calls):
            yield llm.ToolCallStarted(index=index, id=call.id, name=call.name)
            yield llm.ToolCallReady(index=index, call=call)
        yield llm.UsageReport()
        yield llm.Finished(reason="tool_calls" if calls else "stop")

    async def aclose(self) -> None:
        """Does nothing: the provider holds no resources."""


def _with_notice(step: RulesStep, conversation: Conversation) -> str:
    """Returns the text. The first answer of a conversation begins with a notice that no model is
    used.
    """
    notices = tuple(grammar(language).texts["notice"] for language in LANGUAGES)
    has_notice = any(text.startswith(notices) for text in conversation.texts)
    notice = grammar(conversation.language).texts["notice"]
    return step.text if has_notice or not step.text else f"{notice}\n\n{step.text}"


def next_step(conversation: Conversation, offered: frozenset[str]) -> RulesStep:
    """Returns the next step of the turn. Does not raise for any message, tool result or graph."""
    languages = tuple(sorted(LANGUAGES, key=lambda language: language != conversation.language))
    requests = _requests(conversation, languages)
    turns = [RulesTurn(conversation, request, offered) for request in requests]
    proposals = [
        answer for (name, _), answer in conversation.answered.items() if name.startswith("propose_")
    ]
    if (FINISH in offered or requests[0].intent == "search") and (
        step := task_step(turns[0])
    ) is not None:
        return step
    if proposals:  # only one proposal per turn, whatever its outcome
        step = RulesStep(text="\n\n".join(outcome_lines(turns[0], answer) for answer in proposals))
    else:
        step = run(_answer, turns)
    is_over = FINISH in offered and not step.calls
    return finished(step.text, "findings" if proposals else "ok") if is_over else step


def _requests(conversation: Conversation, languages: tuple[Language, ...]) -> list[UserRequest]:
    """Returns the requests of the question; one for each node that the question refers to."""
    question = conversation.question
    keys = conversation.pointed_at
    if not keys:
        return understand(question, languages)
    links = [f"{{{{node:{key}}}}}" for key in keys[:MAX_PARTS]]
    this = re.compile(grammar(conversation.language).words["pointed_at"], re.IGNORECASE)
    questions = [this.sub(link.replace("\\", r"\\"), question, count=1) for link in links]
    requests_by_question = [understand(one, languages) for one in dict.fromkeys(questions)]
    if all(request.intent == "search" for requests in requests_by_question for request in requests):
        requests_by_question = [understand(f"explain {link}", languages) for link in links]
    if len(requests_by_question) > 1 and any(
        requests[0].is_command for requests in requests_by_question
    ):
        return [replace(requests_by_question[0][0], intent="one_change_at_a_time")]
    return [request for requests in requests_by_question for request in requests]


def _answer(turn: RulesTurn) -> str:
    """Returns the answer of the first interpretation whose names exist in the graph, else of the
    search.
    """
    is_wide = turn.offered.isdisjoint({"search_nodes"}) and graph_answers.SEARCH_ALL in turn.offered
    text = ""
    if not turn.request.is_command and graph_answers.asks_everywhere(turn):
        text = graph_answers.list_sets(turn, graph_answers.SEARCH_ALL)
    if text:
        return text
    for request in (turn.request, *turn.request.otherwise):
        turn.request = request
        if request.is_command and not any(name.startswith("propose_") for name in turn.offered):
            return turn.say("no_write_tool")
        if request.intent not in HANDLERS:
            return turn.say(request.intent)
        if request.intent == "search" or (is_wide and request.intent != "used_where"):
            break
        try:
            return HANDLERS[request.intent](turn)
        except GraphNamed:
            return graph_answers.describe_graph(turn)
        except NotNamed as not_named:
            text = text or str(not_named)
    search = graph_answers.SEARCH_ALL if is_wide else "search_nodes"
    listed = graph_answers.list_sets(turn, search) if search in turn.offered else ""
    return (
        listed
        or text
        or (graph_answers.everywhere(turn) if is_wide else graph_answers.search(turn))
    )
