"""The timers of a call: what is due when nobody does anything, and when the call is too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphrag.voice.voice_session import VoiceSession

AFTER_S: Final[Mapping[str, float]] = {
    "opening": 5.0,
    "ask_again": 8.0,
    "greeting": 8.0,
    "answer": 8.0,
    "response": 8.0,
    "session_again": 0.0,
    "line_lost": 10.0,
    "digits": 2.0,
}
"""How long is waited for a session, the greeting's sound (twice), an answer, the next event of a
response, any sound, another digit. `session_again`: the session is asked for again once a rate
limit lets it be.
"""
AWAITED: Final = ("answer", "greeting", "ask_again")
"""What stops being due when the model does something: sound, words or a tool."""
BEFORE_EXPIRY_S: Final = 60.0


class CallTimers:
    """When something is due, by its name. Times are seconds of one monotonic clock."""

    def __init__(self, session: VoiceSession, now: float) -> None:
        self._session = session
        self._ends_at = now + session.limits.max_call_s
        wrap_up = self._ends_at - min(session.options.wrap_up_s, session.limits.max_call_s / 2)
        self._due: dict[str, float] = {"wrap_up": wrap_up, "max_duration": self._ends_at}
        self._asked = 0
        self._quiet_since: float | None = None
        self.start("opening", now)
        self.start("line_lost", now)

    def start(self, name: str, now: float, *, delay_s: float = 0.0) -> None:
        """Has something of `AFTER_S` due after its time and a delay, in place of
        an earlier time.
        """
        self._due[name] = now + delay_s + AFTER_S[name]

    def stop(self, *names: str) -> None:
        for name in names:
            self._due.pop(name, None)

    def next_time(self) -> float | None:
        times = list(self._due.values())
        if self._quiet_since is not None:
            times.append(self._quiet_since + self._session.options.silence_s)
        return min(times, default=None)

    def due(self, now: float, *, is_quiet: bool) -> list[str]:
        """Return, each once, what is due; the caller's silence counts while nobody speaks."""
        found = [name for name, at in self._due.items() if at <= now]
        self.stop(*found)
        session = self._session
        if not is_quiet or "opening" in self._due or session.server_asks_silent:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now
        elif now >= self._quiet_since + session.options.silence_s:
            self._quiet_since = now
            found.append("caller_silent" if self.asked_silent() else "ask_silent")
        return found

    def asked_silent(self) -> bool:
        """Note that a silent caller is asked; return whether they were asked often enough."""
        self._asked += 1
        return self._asked > self._session.options.silence_prompts

    def shorten(self, expires: float) -> None:
        """The model's session ends at `expires`: the call does so before."""
        end = expires - BEFORE_EXPIRY_S
        if end < self._ends_at and "max_duration" in self._due:
            self._ends_at = self._due["max_duration"] = end
            if "wrap_up" in self._due:
                self._due["wrap_up"] = end - self._session.options.wrap_up_s

    def caller_spoke(self) -> None:
        self._asked, self._quiet_since = 0, None
        self.stop("answer")
