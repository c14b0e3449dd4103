"""Keeps a call from asking its model for a second response while one is being made.

The server refuses a second one, and begins some by itself: at the end of what the caller says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ASKED_S = 5.0
"""So long a response that was asked for may take to begin."""

DOUBT_S = 2.0
"""After the server refused something, it is looked sooner."""

BUSY_S = 0.5  # pause after the server said that it has an active response already
MOST_BUSY = 6  # such answers in a row after which the session is given up

GateState = Literal["idle", "requested", "active", "cancelling"]


@dataclass(slots=True)
class ResponseGate:
    """Where the conversation's response stands. `wanted`: one more is asked for once it may be.

    `not_before`: nothing is asked for until then, 0 when there is no such time. `busy`: how often
    in a row the server said that it has an active response.
    """

    state: GateState = "idle"
    response_id: str | None = None
    wanted: bool = False
    asked_at: float = 0.0
    asked_again: bool = False
    not_before: float = 0.0
    busy: int = 0

    def ask(self, now: float, *, caller_speaks: bool) -> bool:
        """Ask for a response; return whether `response.create` is to be sent now, else
        it is remembered.
        """
        if now >= self.not_before:
            self.not_before = 0.0
        if self.state != "idle" or caller_speaks or self.not_before:
            self.wanted = True
            return False
        self.state = "requested"
        self.asked_at = now
        self.wanted = False
        self.asked_again = False
        return True

    def created(self, response_id: str) -> None:
        """Note that a response has begun. One that the server began by itself answers what was
        wanted; one that we asked for knows nothing of what was wanted since.
        """
        self.wanted = self.wanted and self.state == "requested"
        self.state = "active"
        self.response_id = response_id
        self.not_before, self.busy = 0.0, 0

    def cancel(self) -> str | None:
        """Return the response to cancel, None where none runs or it is being cancelled."""
        if self.state != "active":
            return None
        self.state = "cancelling"
        return self.response_id

    def done(self, response_id: str) -> bool:
        """Note that a response is over; return whether it was the one that ran."""
        if response_id != self.response_id:
            return False
        self.state, self.response_id = "idle", None
        return True

    def refused(self, now: float) -> bool:
        """Notes that the server has an active response already: ours was not begun. Returns whether
        that response never seems to end.
        """
        if self.state == "requested":
            self.hold(now + BUSY_S)
            self.busy += 1
        return self.busy >= MOST_BUSY

    def hold(self, until: float) -> None:
        """Asks for the response that is wanted at `until`, and for none before."""
        self.state, self.response_id, self.wanted = "idle", None, True
        self.not_before = until

    def late(self, now: float) -> Literal["no", "ask_again", "lost"]:
        """Return what to do about a response that was asked for and does not begin."""
        if self.state != "requested" or now < self.asked_at + ASKED_S:
            return "no"
        if self.asked_again:
            return "lost"
        self.asked_again = True
        self.asked_at = now
        return "ask_again"

    def doubt(self, now: float) -> None:
        """Look sooner whether a response that was asked for begins: the
        server refused something.
        """
        if self.state == "requested":
            self.asked_at = min(self.asked_at, now - ASKED_S + DOUBT_S)

    @property
    def next_late(self) -> float | None:
        if self.state == "requested":
            return self.asked_at + ASKED_S
        return self.not_before if self.state == "idle" and self.wanted and self.not_before else None

    def lose(self) -> None:
        """Begin again on another connection."""
        self.state, self.response_id, self.wanted = "idle", None, False
        self.not_before, self.busy = 0.0, 0
