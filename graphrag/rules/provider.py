"""The provider without a language model: rules behind the interface of a real one.

Decision: it keeps nothing between calls. What it needs to know stands in the messages, so a turn
goes on after a restart, on another server, or after a person decided a proposal days later.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, cast

from graphrag.i18n import Language
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
from graphrag.llm.tokens import fits
from graphrag.rules import change_requests, creating, graph_answers, node_answers
from graphrag.rules.conversation import Conversation, read_conversation
from graphrag.rules.fallback import MAX_QUERY, search
from graphrag.rules.markup import cite, plain
from graphrag.rules.normalized_text import EntityMention, read_wording
from graphrag.rules.patterns import UserRequest, grammar, is_command, understand
from graphrag.rules.tool_tables import ToolTables
from graphrag.rules.turn_state import RulesStep, RulesTurn, run

MAX_NAME_WORDS = 3
_PIECE = re.compile(r"\S*\s*\S*\s*\S*\s*", re.DOTALL)
_ASKED = [
    re.compile("^" + re.escape(grammar(language).texts[text]).replace(r"\{name\}", "(?P<name>`[^`]+`)"), re.M)
    for text in ("several_nodes", "near_nodes")
    for language in ("en", "fr")
]
_STATES = (
    ("undone", r"APPLIED, BUT TAKEN BACK|APPLIQUÉ, MAIS ANNULÉ"),
    ("edited", r"APPLIED WITH CHANGES|APPLIQUÉ AVEC DES MODIFICATIONS"),
    ("applied", r"APPLIED|APPLIQUÉ"),
    ("rejected", r"REJECTED|REJETÉ"),
    ("expired", r"EXPIRED|EXPIRÉ"),
    ("stale", r"OUT OF DATE|PÉRIMÉ"),
    ("failed", r"FAILED|ÉCHOUÉ"),
    ("pending", r"PROPOSED|NOT DECIDED YET|PAS ENCORE DÉCIDÉ"),
)
_KEYS = re.compile(
    r" (?:(?:new|changed|deleted) (?:nodes|edges|types)"
    r"|(?:nœuds|arêtes|types) (?:créé|modifié|supprimé)e?s): .*?(?= Feedback: | Commentaire : |\Z)",
    re.DOTALL,
)
"""What a person is not shown of an outcome: keys and revision."""
_CREATED = re.compile(r"(?:new nodes|nœuds créés): (?P<keys>ai_\w+(?:, ai_\w+)*)")
_PROBLEM = re.compile(r"^(?:- |  )(?P<text>.+)$", re.MULTILINE)

_BY_NAME = (
    *(graph_answers.describe_graph, graph_answers.starts, graph_answers.count, graph_answers.list_nodes),
    *(graph_answers.list_types, graph_answers.list_sheets, graph_answers.unconnected),
    *(graph_answers.describe_type, node_answers.describe_node, node_answers.show_code),
    *(node_answers.show_field, node_answers.neighbors, node_answers.path, creating.create),
    *(change_requests.connect, change_requests.delete_node, change_requests.delete_edge),
    *(change_requests.rename, change_requests.move, change_requests.move_sheet, change_requests.tidy),
    *(change_requests.incomplete, change_requests.several),
)
HANDLERS: Mapping[str, Callable[[RulesTurn], str | None]] = {
    **{handler.__name__: handler for handler in _BY_NAME},
    "set": change_requests.set_field,
    "help": lambda turn: turn.say(f"help_{turn.request.options.get('topic', 'all')}"),
}
"""What answers each intent of the patterns."""


def _new_id() -> str:
    return f"rules_{secrets.token_hex(12)}"


class RulesProvider(Identified):
    """Answers by rules from what the tools return. `ids` makes the ids of its calls."""

    def __init__(self, *, ids: Callable[[], str] = _new_id) -> None:
        super().__init__(name="offline", model="rules", context_window=1_000_000)
        self._ids = ids

    async def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        """Yield the answer piece by piece, or the calls of the tools that it needs first.

        Costs no tokens: the usage reported is zero. Raises nothing.
        """
        offered = frozenset[str]() if options.tool_choice == "none" else _names(tools)
        conversation = read_conversation(messages)
        step = next_step(conversation, offered)
        text = _with_notice(step, conversation)
        cut = _first_tokens(text, options.max_tokens)
        for piece in filter(None, _PIECE.findall(cut)):
            yield TextDelta(text=piece)
        calls = [
            ToolCall(id=self._ids(), name=call.name, arguments=json.dumps(call.arguments, ensure_ascii=False))
            for call in (step.calls if cut == text else ())
        ]
        for index, call in enumerate(calls):
            yield ToolCallStarted(index=index, id=call.id, name=call.name)
        for index, call in enumerate(calls):
            yield ToolCallReady(index=index, call=call)
        yield UsageReport()
        yield Finished(reason="length" if cut != text else "tool_calls" if calls else "stop")

    async def aclose(self) -> None:
        """Nothing is held open."""


def _names(tools: Sequence[ToolSchema]) -> frozenset[str]:
    functions: list[Any] = [tool.get("function") for tool in tools]
    names = [cast(Mapping[str, Any], f).get("name") for f in functions if isinstance(f, Mapping)]
    return frozenset(name for name in names if isinstance(name, str))


def _with_notice(step: RulesStep, conversation: Conversation) -> str:
    """Return the text; the first one of a conversation begins by saying that no model is at work."""
    if not step.text:
        return ""
    notices = tuple(grammar(language).texts["notice"] for language in ("en", "fr"))
    if any(text.startswith(notices) for text in conversation.earlier_texts):
        return step.text
    return f"{grammar(conversation.language).texts['notice']}\n\n{step.text}"


def _first_tokens(text: str, max_tokens: int | None) -> str:
    """Return as much of the beginning as `max_tokens` allows."""
    while max_tokens is not None and text and not fits(text, max_tokens):
        text = text[: len(text) * 9 // 10]
    return text


def next_step(conversation: Conversation, offered: frozenset[str]) -> RulesStep:
    """Return the next step of the turn. Never raises for what a person, a tool or a graph may say."""
    requests, meant = _understood(conversation)
    turns = [RulesTurn(conversation, request, offered, meant) for request in requests]
    if turns[0].proposals:  # never a second proposal in a turn, whatever became of the first
        return RulesStep(text="\n\n".join(_outcome(turns[0], answer) for answer in turns[0].proposals))
    return run(_answer, turns)


def _answer(turn: RulesTurn) -> str:
    if is_command(turn.request) and not turn.can_write:
        return turn.say("no_write_tool")
    handler = HANDLERS.get(turn.request.intent)
    answer = handler(turn) if handler is not None else None
    return search(turn, turn.conversation.question.strip()[:MAX_QUERY]) if answer is None else answer


def _understood(conversation: Conversation) -> tuple[list[UserRequest], dict[str, str]]:
    """Return what the last message asks for, and what stands for a name that had not been clear.

    A message that is only a name answers the question which node is meant, where that was asked; then
    what was asked for before goes on with it. Else the node is to be described.
    """
    first = conversation.language
    languages: tuple[Language, ...] = (first, "en" if first == "fr" else "fr")
    requests = understand(conversation.question, languages)
    name = _bare_name(conversation.question, languages) if requests[0].intent == "search" else None
    if name is None:
        return requests, {}
    asked = {found["name"] for form in _ASKED for found in form.finditer(conversation.last_answer)}
    before = understand(conversation.last_question, languages)
    if len(asked) == 1 and before[0].intent != "search":
        return before, {asked.pop(): name.text}
    request = requests[0]
    whole = {"node": (0, len(request.wording.folded))}
    return [
        UserRequest(intent="describe_node", wording=request.wording, grammar=request.grammar, spans=whole)
    ], {}


def _bare_name(message: str, languages: Sequence[Language]) -> EntityMention | None:
    """Return a message as a name, where it can be one."""
    wording, rules = read_wording(message), grammar(languages[0])
    mention = wording.mention(0, len(wording.folded), rules.articles, rules.nouns)
    if mention is None or "?" in wording.folded:
        return None
    return mention if mention.quoted or len(mention.text.split()) <= MAX_NAME_WORDS else None


def _outcome(turn: RulesTurn, answer: ToolTables | None) -> str:
    """Return what became of a proposal, as the answer to its call says."""
    if answer is None:
        return turn.say("outcome_unknown")
    text = answer.text.strip()
    if answer.is_error:
        problems = [plain(found["text"], 600) for found in _PROBLEM.finditer(text)] or [plain(text, 600)]
        return turn.say("not_possible") + "\n" + "\n".join(f"- {problem}" for problem in problems[:8])
    state = next((name for name, opening in _STATES if re.match(opening, text)), "other")
    if state == "pending":
        return turn.say("outcome_pending")
    created = _CREATED.search(text) if state in ("applied", "edited") else None
    links = ", ".join(map(cite, created["keys"].split(", "))) if created is not None else ""
    more = f"\n{turn.say('created', nodes=links)}" if links else ""
    return f"{turn.say(f'outcome_{state}')}\n> {plain(_KEYS.sub('', text), 2_000)}{more}"
