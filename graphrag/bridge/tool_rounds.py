"""The tool calls of the model: each is run at most once and answered exactly once.

The tool calls of one response are a round. When the response is over and all outputs are there, the
model is asked to continue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from graphrag.bridge.signals import Action, Counted, RunTool, ToolAnswered
from graphrag.realtime.session_settings import SessionSettings

FILLER_PAUSE_S: Final = 8.0  # between two requests to wait
MAX_TEXTS: Final = 50  # kept for the next session


@dataclass(slots=True)
class _Running:
    """A running tool.

    `delay_at`: when the caller is asked to wait, None for never or already asked. `is_orphan`: the
    session that called it was lost.
    """

    name: str
    delay_at: float | None
    is_orphan: bool = False


@final
class ToolRounds:
    """The running tools, and the outputs that the model has not received."""

    def __init__(self, session: SessionSettings) -> None:
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
        """Whether any tool runs."""
        return bool(self._running)

    def called(self, item: Mapping[str, Any], response_id: str, now: float) -> list[Action]:
        """Handles a tool call of the model. Returns the actions; each id is run once."""
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
        """Records an output. Returns False if no such tool was running."""
        tool = self._running.pop(done.call_id, None)
        if tool is None:
            return False
        self._ends = self._ends or done.ends
        output = done.output[: self._session.limits.result_chars]
        if tool.is_orphan:
            self._orphans.append(f"{tool.name}: {output}")
            self._open_round = True
        else:
            self._outputs.append((done.call_id, output))
        return True

    def outputs(self) -> list[tuple[str, str]]:
        """Returns the outputs for the model as (call id, text), each once."""
        outputs = self._outputs
        self._outputs = []
        return outputs

    def take_round_done(self, active: str | None = None) -> bool:
        """Returns True, once a round, if the round is complete and the model is to continue.

        `active`: id of the response that is not over.
        """
        if not self._open_round or self._running or self._outputs or active == self._called_in:
            return False
        self._open_round = False
        return not self._ends

    def next_delay(self) -> float | None:
        """Returns when the caller may have to be asked to wait, None if no tool is slow."""
        due = [
            running.delay_at for running in self._running.values() if running.delay_at is not None
        ]
        return max(min(due), self._filler_after) if due else None

    def take_delayed(self, now: float) -> str | None:
        """Returns the request to wait for a slow tool, once a tool and at most every pause."""
        if now < self._filler_after:
            return None
        for running in self._running.values():
            if running.delay_at is not None and running.delay_at <= now:
                running.delay_at = None
                self._filler_after = now + FILLER_PAUSE_S
                return self._session.delayed[running.name]
        return None

    def lose_session(self) -> None:
        """Keeps the outputs of a lost session as texts for the next session."""
        self._orphans += [output for _, output in self._outputs]
        self._outputs.clear()
        for running in self._running.values():
            running.is_orphan = True

    def keep_text(self, text: str) -> None:
        """Keeps a text for the next session."""
        if len(self._orphans) < MAX_TEXTS:
            self._orphans.append(text)

    def orphaned(self) -> list[str]:
        """Returns the texts for a new session, each once."""
        texts = self._orphans
        self._orphans = []
        return texts
