"""Collects the actions of a bridge, and remembers the events sent to the model by their id."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, final

import orjson

from graphrag.bridge.signals import Action, SendModel

MAX_REMEMBERED: Final = 200  # events whose errors can be attributed
_MILLISECONDS = re.compile(r"\b(\d{1,9})\s*ms")


@final
class BridgeOutbox:
    """Actions in the order in which they are to be carried out."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self._sent: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._number = 0

    def add(self, *actions: Action) -> None:
        """Appends actions."""
        self._actions += actions

    def take(self) -> list[Action]:
        """Returns the collected actions and forgets them."""
        actions = self._actions
        self._actions = []
        return actions

    def next_number(self) -> int:
        """Returns a number that is unique in the call."""
        self._number += 1
        return self._number

    def send(self, kind: str, **fields: Any) -> str:
        """Sends an event to the model and remembers its type. Returns its id."""
        event_id = f"n{self.next_number()}"
        event = {"type": kind, "event_id": event_id, **fields}
        self._actions.append(SendModel(orjson.dumps(event).decode("utf-8")))
        self.remember(event_id, {"type": kind})
        return event_id

    def remember(self, event_id: str, about: Mapping[str, Any]) -> None:
        """Sets what `cause_of` returns for an event."""
        self._sent[event_id] = about
        while len(self._sent) > MAX_REMEMBERED:
            self._sent.popitem(last=False)

    def cause_of(self, error: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Returns the event that caused an error, None if it is unknown.

        An error without an `event_id` is attributed to the last truncation at a time that its
        message names.
        """
        if error.get("event_id") is not None:
            return self._sent.get(str(error["event_id"]))
        times = set(milliseconds_in(str(error.get("message"))))
        return next(
            (
                event
                for event in reversed(self._sent.values())
                if event.get("audio_end_ms") in times
            ),
            None,
        )


def milliseconds_in(message: str) -> list[int]:
    """Returns the times in milliseconds that a message names, in order."""
    return [int(number) for number in _MILLISECONDS.findall(message)]
