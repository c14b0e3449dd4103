"""The desk of one turn: what was read for it, and what is to be read next.

A handler is written straight on, as if every read answered at once. Where an answer is not in the
messages yet, `Needs` ends it; the next call of the provider runs it again from the start with more
answers. So nothing has to be remembered between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, cast

from graphrag.messages import Language
from graphrag.offline.conversation import Answered, Conversation, canonical
from graphrag.offline.phrases import say
from graphrag.offline.readings import Reading, Row, cell

MAX_ROUNDS = 3
"""Answers of one turn that may call tools; the one after speaks."""

MAX_CALLS = 10
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool and the arguments to call it with."""

    name: str
    arguments: Mapping[str, Any]


class Needs(Exception):
    """What must be called before the handler can go on; `text` is said along with it."""

    def __init__(self, calls: Sequence[Call], text: str = "") -> None:
        self.calls, self.text = tuple(calls), text
        super().__init__(", ".join(call.name for call in calls))


class CannotGoOn(Exception):
    """Why the handler ends without an answer; `text` says it to the person."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)


class Desk:
    """Hands out what was read, and asks for what was not.

    `meant` says what the person, asked back, named instead of an unclear name.
    """

    def __init__(
        self,
        conversation: Conversation,
        offered: frozenset[str],
        *,
        meant: Mapping[str, str] | None = None,
    ) -> None:
        self.conversation, self.offered = conversation, offered
        self.meant = meant or {}
        self.language: Language = conversation.language
        self._known = {
            (a.name, canonical(a.arguments)): a.reading or Reading(is_error=True)
            for a in conversation.answered
        }

    def say(self, phrase: str, /, **facts: Any) -> str:
        """Return a phrase in the language of the question."""
        return say(phrase, self.language, **facts)

    def read(self, name: str, /, **arguments: Any) -> Reading:
        """Return what a read tool answers. Raises: Needs, CannotGoOn."""
        return self.read_all(Call(name=name, arguments=arguments))[0]

    def read_all(self, *calls: Call) -> list[Reading]:
        """Return what several read tools answer, asked at once. Raises: Needs, CannotGoOn."""
        wanted = {(call.name, canonical(call.arguments)): call for call in calls}
        missing = [call for signature, call in wanted.items() if signature not in self._known]
        if missing:
            self._request(missing[:MAX_CALLS])
        return [self._known[call.name, canonical(call.arguments)] for call in calls]

    def together(self, one: Callable[[], A], other: Callable[[], B]) -> tuple[A, B]:
        """Return what two pieces of a handler return, whose reads are asked for at once.

        Raises: Needs with the calls of both, CannotGoOn.
        """
        needed: list[Call] = []
        first: A | None = None
        try:
            first = one()
        except Needs as needs:
            needed += needs.calls
        try:
            second = other()
        except Needs as needs:
            needed += needs.calls
            raise Needs(needed[:MAX_CALLS]) from None
        if needed:
            raise Needs(needed)
        return cast(A, first), second

    def propose(self, kind: str, arguments: Mapping[str, Any], text: str) -> NoReturn:
        """Call a write tool. Raises: Needs with the call, or CannotGoOn where there is no such tool."""
        name = f"propose_{kind}"
        if name not in self.offered:
            raise CannotGoOn(self.say("no_write_tool"))
        self._request([Call(name=name, arguments=arguments)], text)

    def _request(self, calls: Sequence[Call], text: str = "") -> NoReturn:
        if any(call.name not in self.offered for call in calls):
            raise CannotGoOn(self.say("no_tool"))
        if self.conversation.rounds >= MAX_ROUNDS:
            raise CannotGoOn(self.say("too_many_rounds"))
        raise Needs(calls, text)

    def proposed(self) -> list[Answered]:
        """Return the write tools that were called in this turn."""
        return [a for a in self.conversation.answered if a.name.startswith("propose_")]

    def seen_nodes(self) -> dict[str, Row]:
        """Return every node that stands in the context or in an answer of this turn, by key."""
        rows = list(self.conversation.context.nodes)
        for answered in self.conversation.answered:
            if answered.reading is not None and not answered.reading.is_error:
                for table in ("nodes", "found", "entry_points", "hubs", "without_edges"):
                    rows += answered.reading.rows(table)
        return {cell(row["_key"]): row for row in reversed(rows) if row.get("_key") is not None}
