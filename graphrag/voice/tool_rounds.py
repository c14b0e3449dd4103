"""The tool calls of a call: each is run at most once and answered exactly once.

Calls of one response are a round: when the response is over, so that no call comes any more, and
all of them have their output, the model is asked to go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphrag.voice.signals import Action, Counted, RunTool, ToolAnswered
from graphrag.voice.voice_session import VoiceSession

FILLER_PAUSE_S = 8.0
"""So long after one the caller is not asked to wait again."""
KEPT_TEXTS = 50


@dataclass(slots=True)
class _Running:
    """A tool that runs. `delay_at`: when the caller is asked to wait, None: never, or
    that was done.

    `is_orphan`: the session that called it is gone.
    """

    name: str
    delay_at: float | None
    is_orphan: bool = False


class ToolRounds:
    """Which tools run, and which outputs the model is still to get."""

    def __init__(self, session: VoiceSession) -> None:
        self._session = session
        self._running: dict[str, _Running] = {}
        self._seen = set[str]()
        self._outputs: list[tuple[str, str]] = []
        self._orphans: list[str] = []
        self._open_round = False
        self._called_in = ""
        self._ends = False
        self._filler_after = 0.0

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    def called(self, item: Mapping[str, Any], response_id: str, now: float) -> list[Action]:
        """Take in a completed call of the model; return what is to be done. An id is run once."""
        call_id = str(item.get("call_id"))
        name = str(item.get("name"))
        if call_id in self._seen:
            return [Counted("voice_repeated_calls")]
        self._open_round = True
        self._called_in = response_id
        if len(self._seen) >= self._session.limits.max_tool_calls:
            self._outputs.append((call_id, self._session.text("voice_too_many_calls")))
            return [Counted("voice_too_many_calls")]
        self._seen.add(call_id)
        is_slow = name in self._session.delayed
        delay_at = now + self._session.options.delayed_after_s if is_slow else None
        self._running[call_id] = _Running(name, delay_at)
        return [RunTool(call_id, name, str(item.get("arguments") or "{}"))]

    def finished(self, done: ToolAnswered) -> bool:
        """Take in an output; say whether the tool ran."""
        ran = self._running.pop(done.call_id, None)
        if ran is None:
            return False
        self._ends = self._ends or done.ends
        output = done.output[: self._session.limits.result_chars]
        if ran.is_orphan:
            self._orphans.append(f"{ran.name}: {output}")
            self._open_round = True
        else:
            self._outputs.append((done.call_id, output))
        return True

    def outputs(self) -> list[tuple[str, str]]:
        """Return the outputs that the model did not get yet, as (call id, text), each once."""
        found = self._outputs
        self._outputs = []
        return found

    def take_round_done(self, active: str | None = None) -> bool:
        """Return, once a round, whether all of its calls have their output and the model is
        to go on.

        `active`: the response that is not over.
        """
        if not self._open_round or self._running or self._outputs or active == self._called_in:
            return False
        self._open_round = False
        return not self._ends

    def next_delay(self) -> float | None:
        """Return when the caller may have to be asked to wait."""
        due = [
            running.delay_at for running in self._running.values() if running.delay_at is not None
        ]
        return max(min(due), self._filler_after) if due else None

    def take_delayed(self, now: float) -> str | None:
        """Return the sentence for a tool that is slow, once a tool and not too often."""
        if now < self._filler_after:
            return None
        for running in self._running.values():
            if running.delay_at is not None and running.delay_at <= now:
                running.delay_at = None
                self._filler_after = now + FILLER_PAUSE_S
                return self._session.delayed[running.name]
        return None

    def lose_session(self) -> None:
        """Note that the model's session is gone: the next one gets what it called as a text."""
        self._orphans += [output for _, output in self._outputs]
        self._outputs.clear()
        for running in self._running.values():
            running.is_orphan = True

    def keep_text(self, text: str) -> None:
        """Keep what the model is to know once there is a session again."""
        if len(self._orphans) < KEPT_TEXTS:
            self._orphans.append(text)

    def orphaned(self) -> list[str]:
        """Return, once, what a new session has to know."""
        found = self._orphans
        self._orphans = []
        return found
