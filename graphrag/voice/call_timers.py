"""The timers of a call: what is due when nobody does anything, and when the call is too long."""

from __future__ import annotations

from graphrag.voice.voice_session import VoiceSession

OPENING_S = 5.0
GREETING_S = 8.0
ANSWER_S = 8.0
LINE_S = 10.0
DIGITS_S = 2.0
BEFORE_EXPIRY_S = 60.0


class CallTimers:
    """When something is due, by its name. Times are seconds of one monotonic clock."""

    def __init__(self, session: VoiceSession, now: float) -> None:
        self._session = session
        self._due: dict[str, float] = {"opening": now + OPENING_S}
        self._ends_at = now + session.max_call_s
        self._due["wrap_up"] = self._ends_at - min(session.options.wrap_up_s, session.max_call_s / 2)
        self._due["max_duration"] = self._ends_at
        self._asked = 0
        self._quiet_since: float | None = None

    def next_time(self) -> float | None:
        times = list(self._due.values())
        if self._quiet_since is not None:
            times.append(self._quiet_since + self._session.options.silence_s)
        return min(times, default=None)

    def due(self, now: float, *, is_quiet: bool) -> list[str]:
        """Return, each once, what is due; the caller's silence counts while nobody speaks."""
        found = [name for name, at in self._due.items() if at <= now]
        for name in found:
            del self._due[name]
        return [*found, *self._silence(now, is_quiet=is_quiet)]

    def _silence(self, now: float, *, is_quiet: bool) -> list[str]:
        session = self._session
        if not is_quiet or "opening" in self._due or session.server_asks_silent:
            self._quiet_since = None
            return []
        if self._quiet_since is None:
            self._quiet_since = now
        if now < self._quiet_since + session.options.silence_s:
            return []
        self._quiet_since = now
        return ["caller_silent"] if self.asked_silent() else ["ask_silent"]

    def asked_silent(self) -> bool:
        """Note that a silent caller is asked; return whether they were asked often enough."""
        self._asked += 1
        return self._asked > self._session.options.silence_prompts

    def opening(self, now: float) -> None:
        """A session of the model is being opened."""
        self._due["opening"] = now + OPENING_S
        for name in ("answer", "greeting", "ask_again"):
            self._due.pop(name, None)

    def opened(self) -> None:
        self._due.pop("opening", None)

    def line_open(self, now: float) -> None:
        self._due["line_lost"] = now + LINE_S

    def heard_line(self, now: float) -> None:
        self._due["line_lost"] = now + LINE_S

    def shorten(self, expires: float) -> None:
        """The model's session ends at `expires`: the call does so before."""
        end = expires - BEFORE_EXPIRY_S
        if end < self._ends_at and "max_duration" in self._due:
            self._ends_at = self._due["max_duration"] = end
            if "wrap_up" in self._due:
                self._due["wrap_up"] = end - self._session.options.wrap_up_s

    def greeting(self, now: float) -> None:
        """The greeting was asked for: its sound has to come."""
        self._due["ask_again"] = now + GREETING_S

    def caller_spoke(self, now: float) -> None:  # noqa: ARG002 - as the others
        self._asked = 0
        self._quiet_since = None
        self._due.pop("answer", None)

    def caller_stopped(self, now: float) -> None:
        """An answer has to come."""
        self._due["answer"] = now + ANSWER_S

    def answered(self) -> None:
        """The model does something: sound, words or a tool."""
        for name in ("answer", "greeting", "ask_again"):
            self._due.pop(name, None)

    def asked_greeting_again(self, now: float) -> None:
        self._due["greeting"] = now + GREETING_S

    def digit(self, now: float) -> None:
        self._due["digits"] = now + DIGITS_S

    def no_digits(self) -> None:
        self._due.pop("digits", None)
