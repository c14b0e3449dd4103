"""Prevents requests for a response while another response is active.

The server refuses such requests. It also starts responses itself, when the caller stops speaking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

REQUEST_TIMEOUT_S: Final = 5.0  # for a requested response to begin
DOUBT_S: Final = 2.0  # the same after the server refused an unknown event
BUSY_S: Final = 0.5  # pause after the server answered that a response is active
MAX_BUSY: Final = 6  # consecutive answers of that kind after which the session is given up

GateState = Literal["idle", "requested", "active", "cancelling"]


@final
@dataclass(slots=True)
class ResponseGate:
    """The state of the conversation's response.

    `wanted`: another response is requested as soon as possible. `not_before`: earliest time of the
    next request, 0 for none. `busy`: number of consecutive refusals because a response is active.
    """

    state: GateState = "idle"
    response_id: str | None = None
    wanted: bool = False
    requested_at: float = 0.0
    asked_again: bool = False
    not_before: float = 0.0
    busy: int = 0

    def want(self) -> None:
        """Remembers that a response is wanted."""
        self.wanted = True

    def ask(self, now: float, *, caller_speaks: bool) -> bool:
        """Requests a response. Returns True if `response.create` is to be sent now.

        Otherwise the request is remembered as `wanted`.
        """
        if now >= self.not_before:
            self.not_before = 0.0
        if self.state != "idle" or caller_speaks or self.not_before:
            self.want()
            return False
        self.state = "requested"
        self.requested_at = now
        self.wanted = False
        self.asked_again = False
        return True

    def created(self, response_id: str) -> None:
        """Records that a response has begun.

        A response that the server began itself covers the pending request. A requested response
        does not: it began without the later input.
        """
        self.wanted = self.wanted and self.state == "requested"
        self.state = "active"
        self.response_id = response_id
        self.not_before, self.busy = 0.0, 0

    def cancel(self) -> str | None:
        """Returns the id of the response to cancel, None if no response is active."""
        if self.state != "active":
            return None
        self.state = "cancelling"
        return self.response_id

    def done(self, response_id: str) -> bool:
        """Records the end of a response. Returns True if it was the active one."""
        if response_id != self.response_id:
            return False
        self.state, self.response_id = "idle", None
        return True

    def refused(self, now: float) -> bool:
        """Records a refusal because another response is active.

        Returns True after `MAX_BUSY` refusals: that response does not seem to end.
        """
        if self.state == "requested":
            self.hold(now + BUSY_S)
            self.busy += 1
        return self.busy >= MAX_BUSY

    def hold(self, until: float) -> None:
        """Postpones the wanted response to `until`."""
        self.state, self.response_id, self.wanted = "idle", None, True
        self.not_before = until

    def late(self, now: float) -> Literal["no", "ask_again", "lost"]:
        """Returns what to do about a requested response that has not begun in time."""
        if self.state != "requested" or now < self.requested_at + REQUEST_TIMEOUT_S:
            return "no"
        if self.asked_again:
            return "lost"
        self.asked_again = True
        self.requested_at = now
        return "ask_again"

    def doubt(self, now: float) -> None:
        """Shortens the wait for a requested response: the server refused something."""
        if self.state == "requested":
            self.requested_at = min(self.requested_at, now - REQUEST_TIMEOUT_S + DOUBT_S)

    @property
    def next_late(self) -> float | None:
        """Time of the next check or postponed request."""
        if self.state == "requested":
            return self.requested_at + REQUEST_TIMEOUT_S
        return self.not_before if self.state == "idle" and self.wanted and self.not_before else None

    def lose(self) -> None:
        """Resets the gate for another connection."""
        self.state, self.response_id, self.wanted = "idle", None, False
        self.not_before, self.busy = 0.0, 0
