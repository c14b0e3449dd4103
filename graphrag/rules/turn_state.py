"""State of one turn of the rules: the results read so far, and the ways to end the turn.

Handlers are written as if each read returned at once. If a result is not in the messages yet, the
handler ends with the call, and the next call of the provider runs it again from the start with more
results. So no state is needed between calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from graphrag.i18n import Language
from graphrag.rules.conversation import Conversation, RuleCall
from graphrag.rules.markup import bullets, cite, plain
from graphrag.rules.patterns import UserRequest, grammar
from tools.answer_tables import ToolTables

MAX_ROUNDS = 5  # Number of answers in a turn that may call tools. The next one must be text.

MAX_CALLS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesStep:
    """An answer of the provider: text, or calls with or without text."""

    text: str = ""
    calls: tuple[RuleCall, ...] = ()


class _Stop(Exception):
    """Ends a handler with calls whose results it needs, or with a text instead of its answer."""

    def __init__(self, step: RulesStep) -> None:
        self.step = step


class NotNamed(Exception):
    """Raised when words that should name a node or field do not.

    Another interpretation or the search is tried then. The exception's text is used if neither has
    a result.
    """


class GraphNamed(NotNamed):
    """Raised when the words name the graph, not a node: the question is about the graph."""


def run(handler: Callable[[RulesTurn], str], turns: Sequence[RulesTurn]) -> RulesStep:
    """Returns the answers of the turns, joined, or the calls that they need first."""
    texts: list[str] = []
    calls: dict[tuple[str, str], RuleCall] = {}
    for turn in turns:
        try:
            texts.append(handler(turn))
        except _Stop as stop:
            calls |= {call.signature: call for call in stop.step.calls}
            texts += [stop.step.text] if stop.step.text else []
    if calls:
        text = texts[-1] if len(turns) == 1 and texts else ""
        return RulesStep(text=text, calls=tuple(calls.values())[:MAX_CALLS])
    return RulesStep(text="\n\n".join(texts))


class RulesTurn:
    """One request of a turn, with the results it has read."""

    def __init__(
        self, conversation: Conversation, request: UserRequest, offered: frozenset[str]
    ) -> None:
        self.conversation = conversation
        self.request = request
        self.offered = offered
        self.language: Language = conversation.language
        self.max_rounds = MAX_ROUNDS
        self.has_findings = False
        self._results = {
            key: answer or ToolTables(is_error=True)
            for key, answer in conversation.answered.items()
        }

    def say(self, text: str, /, **facts: Any) -> str:
        """Returns a text of the language file with the values inserted."""
        return grammar(self.language).texts[text].format(**facts)

    def stop(self, text: str) -> NoReturn:
        """Ends the handler with this text."""
        raise _Stop(RulesStep(text=text))

    def read(self, name: str, /, **arguments: Any) -> ToolTables:
        """Returns the result of a read tool; may end the handler, also if the read failed."""
        return self.checked(self.read_all(call(name, **arguments))[0])

    def read_all(self, *calls: RuleCall) -> list[ToolTables]:
        """Returns the results of several read tools, called at once; may end the handler."""
        missing = {call.signature: call for call in calls if call.signature not in self._results}
        if missing:
            self.call(list(missing.values())[:MAX_CALLS])
        return [self._results[call.signature] for call in calls]

    def checked(self, answer: ToolTables) -> ToolTables:
        """Returns the result; ends the handler if the read failed."""
        if answer.is_error:
            self.stop(self.say("read_failed", reason=plain(answer.text or "-", 300)))
        return answer

    def propose(self, kind: str, arguments: Mapping[str, Any], what: str) -> NoReturn:
        """Calls a write tool and ends the handler. `what` describes the proposal."""
        name = f"propose_{kind}"
        if name not in self.offered:
            self.stop(self.say("no_write_tool"))
        reason = self.say("reason", what=plain(self.conversation.question, 300))
        self.call([call(name, **arguments, reason=reason)], self.say("propose", what=what))

    def call(self, calls: Sequence[RuleCall], text: str = "") -> NoReturn:
        """Calls tools, with a text before them, and ends the handler."""
        if any(call.name not in self.offered for call in calls):
            self.stop(self.say("no_tool"))
        if self.conversation.rounds >= self.max_rounds:
            self.stop(self.say("too_many_rounds"))
        raise _Stop(RulesStep(text=text, calls=tuple(calls)))


def call(name: str, /, **arguments: Any) -> RuleCall:
    """Returns a call of a tool."""
    return RuleCall(name=name, arguments=arguments)


def detail(key: str) -> RuleCall:
    """Returns the call that reads a whole node."""
    return call("read_node_detail", nodeKey=key)


def around(key: str, depth: int, direction: str, limit: int) -> RuleCall:
    """Returns the call that reads the neighbourhood of a node. `direction`: in, out or any."""
    direction_name = {"in": "inbound", "out": "outbound"}.get(direction, "any")
    return call(
        "explore_neighborhood",
        nodeKey=key,
        maxDepth=depth,
        direction=direction_name,
        maxResults=limit,
    )


def listing(limit: int, **filters: str) -> RuleCall:
    """Returns the call that lists nodes: all, or those of `typeKey` or `sheetId`."""
    return call(
        "search_nodes",
        maxResults=limit,
        **{name: value for name, value in filters.items() if value},
    )


# Outcomes of proposals

# Outcomes of repeated proposals, which are not stored again.
NOT_STORED = frozenset(("already_proposed", "rejected_before", "rejected_before_why"))

_PROBLEM = re.compile(r"^(?:- |  )(?P<text>.+)$", re.MULTILINE)


def outcome_lines(turn: RulesTurn, answer: ToolTables | None) -> str:
    """Returns the outcome of a proposal, with the change, its reason, and links to
    created nodes.
    """
    if answer is None:
        return turn.say("outcome_unknown")
    if not answer.outcome and answer.is_error:
        return f"{turn.say('not_possible')}\n{bullets(_problems(answer))}"
    quoted = [plain(str(answer.outcome[name]), 2_000) for name in ("what", "why", "feedback")
            if answer.outcome.get(name)]  # fmt: skip
    created = ", ".join(cite(key) for key in answer.outcome.get("created", ()))
    lines = [
        outcome_in_short(turn, answer),
        *(f"> {line}" for line in quoted or [plain(answer.text, 2_000)]),
    ]
    return "\n".join([*lines, turn.say("created", nodes=created)] if created else lines)


def outcome_in_short(turn: RulesTurn, answer: ToolTables) -> str:
    """Returns the outcome of a proposal in one sentence."""
    if not answer.outcome and answer.is_error:
        return " ".join(_problems(answer)[:1])
    text_name = f"outcome_{answer.outcome.get('status')}"
    return turn.say(text_name if text_name in grammar(turn.language).texts else "outcome_other")


def _problems(answer: ToolTables) -> list[str]:
    problems = [plain(match["text"], 600) for match in _PROBLEM.finditer(answer.text)]
    return problems[:8] or [plain(answer.text, 600)]
