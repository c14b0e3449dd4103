"""A call under test: a bridge with both sides written down, and the events of a model's server."""

import base64
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from graphrag.agents.voice_fields import VoiceModel, VoiceOptions
from graphrag.bridge import signals
from graphrag.bridge.bridge import Bridge
from graphrag.realtime.session_settings import SessionSettings


def a_session(**changes: Any) -> SessionSettings:
    options = VoiceOptions.model_validate(changes.pop("options", {}))
    given: dict[str, Any] = {"instructions": "Help.", "delayed": {"look": "One moment."}, **changes}
    return SessionSettings(model=VoiceModel(), options=options, **given)


def sound(ms: int) -> str:
    return base64.b64encode(b"\x7f" * (ms * 8)).decode()


@dataclass
class Call:
    """Feeds a bridge and keeps what it wants done. `now` moves on by hand."""

    session: SessionSettings = field(default_factory=a_session)
    now: float = 100.0
    opened: bool = True

    def __post_init__(self) -> None:
        self.bridge = Bridge(self.session, "MZ1", self.now)
        self.actions: list[signals.Action] = []
        self.numbers = itertools.count(1)
        self.received_ms: dict[str, int] = {}
        if self.opened:
            self.model("session.created", session={})
            self.model("session.updated")

    def feed(self, signal: signals.Signal) -> list[signals.Action]:
        made = self.bridge.feed(signal, self.now)
        self.actions += made
        return made

    def model(self, kind: str, **fields: Any) -> list[signals.Action]:
        return self.feed(signals.ModelEvent({"type": kind, **fields}))

    def wait(self, seconds: float) -> list[signals.Action]:
        """Let time pass, with the ticks that the bridge asks for."""
        end = self.now + seconds
        made = list[signals.Action]()
        ticks = 0
        while (due := self.bridge.next_time()) is not None and due <= end:
            self.now = max(self.now, due)
            made += self.feed(signals.Tick())
            assert (ticks := ticks + 1) < 1_000, "a tick is asked for again and again"
        self.now = end
        return [*made, *self.feed(signals.Tick())]

    def respond(self, *, response: str | None = None, **response_fields: Any) -> str:
        response = response or f"r{next(self.numbers)}"
        self.model("response.created", response={"id": response, **response_fields})
        return response

    def speak(self, response: str, item: str, ms: int, words: str = "") -> list[signals.Action]:
        """The model sends sound of an item, and its words."""
        where = {"response_id": response, "item_id": item}
        if words:
            self.model("response.output_audio_transcript.delta", **where, delta=words)
        self.received_ms[item] = self.received_ms.get(item, 0) + ms
        return self.model("response.output_audio.delta", **where, delta=sound(ms))

    def done(self, response: str, status: str = "completed") -> list[signals.Action]:
        return self.model("response.done", response={"id": response, "status": status})

    def calls_tool(
        self, response: str, name: str, call_id: str, arguments: str = "{}"
    ) -> list[signals.Action]:
        item = {"type": "function_call", "status": "completed", "name": name, "call_id": call_id}
        return self.model(
            "response.output_item.done", response_id=response, item={**item, "arguments": arguments}
        )

    def marks(self) -> list[signals.Action]:
        """All sound that was sent is played, and its marks come back."""
        made: list[signals.Action] = []
        for frame in self.phone_frames():
            if frame["event"] == "mark":
                made += self.feed(signals.PhoneMark(frame["mark"]["name"]))
        return made

    def sent(self, actions: list[signals.Action] | None = None) -> list[dict[str, Any]]:
        """What went to the model, parsed."""
        made = self.actions if actions is None else actions
        return [json.loads(action.text) for action in made if isinstance(action, signals.SendModel)]

    def kinds(self, actions: list[signals.Action] | None = None) -> list[str]:
        return [event["type"] for event in self.sent(actions)]

    def phone_frames(self, actions: list[signals.Action] | None = None) -> list[dict[str, Any]]:
        made = self.actions if actions is None else actions
        return [json.loads(action.text) for action in made if isinstance(action, signals.SendPhone)]

    @property
    def ends(self) -> list[signals.CallOver]:
        return [action for action in self.actions if isinstance(action, signals.CallOver)]

    @property
    def reconnects(self) -> int:
        return sum(isinstance(action, signals.Reconnect) for action in self.actions)

    @property
    def tools(self) -> list[signals.RunTool]:
        return [action for action in self.actions if isinstance(action, signals.RunTool)]
