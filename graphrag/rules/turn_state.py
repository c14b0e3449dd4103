"""Holds what one turn of the rules has read, and ends it with a text, calls of tools or a proposal.

A handler is written as if every read answered at once. Where an answer is not in the messages yet,
the handler ends there; the next call of the provider runs it again from the start, with more
answers. So nothing has to be kept between calls.
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

MAX_ROUNDS = 5
"""Answers of one turn that may call tools; the one after only speaks."""

MAX_CALLS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesStep:
    """What the provider says now: text, or calls with or without a text before them."""

    text: str = ""
    calls: tuple[RuleCall, ...] = ()


class _Stop(Exception):
    """Ends a handler: with calls whose answers it needs, or with what is said instead
    of an answer.
    """

    def __init__(self, step: RulesStep) -> None:
        self.step = step


class NotNamed(Exception):
    """Words that should name a node or field name none: the question is read
    otherwise or searched for.

    Its text is said where neither is of use.
    """


class GraphNamed(NotNamed):
    """The words that should name a node are the graph's name: the question is about the graph."""


def run(handler: Callable[[RulesTurn], str], turns: Sequence[RulesTurn]) -> RulesStep:
    """Return the answers for turns one below the other, or the calls that they need first."""
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
    """One request of a turn: what was read for it, and what is still to be read."""

    def __init__(
        self, conversation: Conversation, request: UserRequest, offered: frozenset[str]
    ) -> None:
        self.conversation = conversation
        self.request = request
        self.offered = offered
        self.language: Language = conversation.language
        self.max_rounds = MAX_ROUNDS
        self.found = False
        self._known = {
            key: answer or ToolTables(is_error=True)
            for key, answer in conversation.answered.items()
        }

    def say(self, text: str, /, **facts: Any) -> str:
        """Return a text of the language file with its facts put in."""
        return grammar(self.language).texts[text].format(**facts)

    def stop(self, text: str) -> NoReturn:
        """End the handler with this text."""
        raise _Stop(RulesStep(text=text))

    def read(self, name: str, /, **arguments: Any) -> ToolTables:
        """Return what a read tool answers; may end the handler, also because the
        read has failed.
        """
        return self.checked(self.read_all(call(name, **arguments))[0])

    def read_all(self, *calls: RuleCall) -> list[ToolTables]:
        """Return what several read tools answer, asked at once; may end the handler."""
        missing = {call.signature: call for call in calls if call.signature not in self._known}
        if missing:
            self.call(list(missing.values())[:MAX_CALLS])
        return [self._known[call.signature] for call in calls]

    def checked(self, answer: ToolTables) -> ToolTables:
        """Return an answer; end the handler where the read has failed."""
        if answer.is_error:
            self.stop(self.say("read_failed", reason=plain(answer.text or "-", 300)))
        return answer

    def propose(self, kind: str, arguments: Mapping[str, Any], what: str) -> NoReturn:
        """Call a write tool; `what` says what is proposed. Ends the handler."""
        name = f"propose_{kind}"
        if name not in self.offered:
            self.stop(self.say("no_write_tool"))
        reason = self.say("reason", what=plain(self.conversation.question, 300))
        self.call([call(name, **arguments, reason=reason)], self.say("propose", what=what))

    def call(self, calls: Sequence[RuleCall], text: str = "") -> NoReturn:
        """Call tools, with a text before. Ends the handler."""
        if any(call.name not in self.offered for call in calls):
            self.stop(self.say("no_tool"))
        if self.conversation.rounds >= self.max_rounds:
            self.stop(self.say("too_many_rounds"))
        raise _Stop(RulesStep(text=text, calls=tuple(calls)))


def call(name: str, /, **arguments: Any) -> RuleCall:
    """Return a call of a tool."""
    return RuleCall(name=name, arguments=arguments)


def detail(key: str) -> RuleCall:
    """Return the call that reads a node whole."""
    return call("read_node_detail", nodeKey=key)


def around(key: str, depth: int, direction: str, limit: int) -> RuleCall:
    """Return the call that reads what surrounds a node; `direction` is in, out or any."""
    way = {"in": "inbound", "out": "outbound"}.get(direction, "any")
    return call(
        "explore_neighborhood", nodeKey=key, maxDepth=depth, direction=way, maxResults=limit
    )


def listing(limit: int, **filters: str) -> RuleCall:
    """Return the call that lists nodes: all, or those of `typeKey` or `sheetId`."""
    return call(
        "search_nodes",
        maxResults=limit,
        **{name: value for name, value in filters.items() if value},
    )


# What became of a proposal

NOT_STORED = frozenset(("already_proposed", "rejected_before", "rejected_before_why"))
"""Outcomes of what was proposed before, so that it is not proposed again."""

_PROBLEM = re.compile(r"^(?:- |  )(?P<text>.+)$", re.MULTILINE)


def outcome_lines(turn: RulesTurn, answer: ToolTables | None) -> str:
    """Return what became of a proposal: the outcome, the change and why, and links to
    what was created.
    """
    if answer is None:
        return turn.say("outcome_unknown")
    if not answer.outcome and answer.is_error:
        return f"{turn.say('not_possible')}\n{bullets(_problems(answer))}"
    said = [plain(str(answer.outcome[name]), 2_000) for name in ("what", "why", "feedback")
            if answer.outcome.get(name)]  # fmt: skip
    created = ", ".join(cite(key) for key in answer.outcome.get("created", ()))
    lines = [
        outcome_in_short(turn, answer),
        *(f"> {line}" for line in said or [plain(answer.text, 2_000)]),
    ]
    return "\n".join([*lines, turn.say("created", nodes=created)] if created else lines)


def outcome_in_short(turn: RulesTurn, answer: ToolTables) -> str:
    """Return what became of a proposal in one sentence."""
    if not answer.outcome and answer.is_error:
        return " ".join(_problems(answer)[:1])
    known = f"outcome_{answer.outcome.get('status')}"
    return turn.say(known if known in grammar(turn.language).texts else "outcome_other")


def _problems(answer: ToolTables) -> list[str]:
    listed = [plain(found["text"], 600) for found in _PROBLEM.finditer(answer.text)]
    return listed[:8] or [plain(answer.text, 600)]
