"""The timers of a call: missing events, a silent caller and the maximum duration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from graphrag.realtime.session_settings import SessionSettings

# `greeting` waits for the sound of the greeting, `ask_again` repeats its request. `response` waits
# for the next event of the active response, `session_again` for the end of a rate limit.
TIMEOUTS_S: Final[Mapping[str, float]] = {
    "opening": 5.0,
    "ask_again": 8.0,
    "greeting": 8.0,
    "answer": 8.0,
    "response": 8.0,
    "session_again": 0.0,
    "line_lost": 10.0,
    "digits": 2.0,
}
# stopped by any sound, words or tool call of the model
AWAITED: Final = ("answer", "greeting", "ask_again")
BEFORE_EXPIRY_S: Final = 60.0  # the call ends this much earlier than the model's session


@final
class Timers:
    """Due times by name, in seconds of one monotonic clock."""

    def __init__(self, session: SessionSettings, now: float) -> None:
        self._session = session
        self._ends_at = now + session.limits.max_call_s
        wrap_up = self._ends_at - min(session.options.wrap_up_s, session.limits.max_call_s / 2)
        self._due: dict[str, float] = {"wrap_up": wrap_up, "max_duration": self._ends_at}
        self._asked = 0
        self._quiet_since: float | None = None
        self.start("opening", now)
        self.start("line_lost", now)

    def start(self, name: str, now: float, *, delay_s: float = 0.0) -> None:
        """Starts or restarts a timer of `TIMEOUTS_S`, with an additional delay."""
        self._due[name] = now + delay_s + TIMEOUTS_S[name]

    def stop(self, *names: str) -> None:
        """Stops timers. Idempotent."""
        for name in names:
            self._due.pop(name, None)

    def next_time(self) -> float | None:
        """Returns the earliest due time."""
        times = list(self._due.values())
        if self._quiet_since is not None:
            times.append(self._quiet_since + self._session.options.silence_s)
        return min(times, default=None)

    def due(self, now: float, *, is_quiet: bool) -> list[str]:
        """Returns the names of the timers that are due, and stops them.

        `ask_silent` and `caller_silent` are due after silence (`is_quiet`).
        """
        names = [name for name, at in self._due.items() if at <= now]
        self.stop(*names)
        session = self._session
        if not is_quiet or "opening" in self._due or session.server_asks_silent:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now
        elif now >= self._quiet_since + session.options.silence_s:
            self._quiet_since = now
            names.append("caller_silent" if self.asked_silent() else "ask_silent")
        return names

    def asked_silent(self) -> bool:
        """Counts a question to a silent caller. Returns True if it is one too many."""
        self._asked += 1
        return self._asked > self._session.options.silence_prompts

    def shorten(self, expires: float) -> None:
        """Ends the call before the model's session expires at `expires`."""
        end = expires - BEFORE_EXPIRY_S
        if end < self._ends_at and "max_duration" in self._due:
            self._ends_at = self._due["max_duration"] = end
            if "wrap_up" in self._due:
                self._due["wrap_up"] = end - self._session.options.wrap_up_s

    def caller_spoke(self) -> None:
        """Resets the silence of the caller."""
        self._asked, self._quiet_since = 0, None
        self.stop("answer")
