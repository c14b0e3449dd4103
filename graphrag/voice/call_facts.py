"""What a call costs and how fast it answers, for its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

MOST_TURNS: Final = 500
_COUNTED: Final = (
    ("audioIn", "input_token_details", "audio_tokens"),
    ("textIn", "input_token_details", "text_tokens"),
    ("audioOut", "output_token_details", "audio_tokens"),
    ("textOut", "output_token_details", "text_tokens"),
)


@dataclass(slots=True)
class CallFacts:
    """Tokens by kind, and milliseconds from the caller's last word to the answer's first sound, by turn."""

    usage: dict[str, int] = field(default_factory=lambda: {name: 0 for name, _, _ in _COUNTED})
    first_audio_ms: int | None = None
    turns_ms: list[int] = field(default_factory=list[int])

    def used(self, event: Mapping[str, Any]) -> None:
        """Add what a `response.done` says that was used."""
        usage = _object(_object(event.get("response")).get("usage"))
        for name, details, counted in _COUNTED:
            number = _object(usage.get(details)).get(counted)
            if isinstance(number, int) and 0 <= number < 10**9:
                self.usage[name] += number

    def answered(self, seconds: float) -> None:
        """Note how long the caller waited for an answer."""
        if len(self.turns_ms) < MOST_TURNS:
            self.turns_ms.append(round(seconds * 1000))

    def document(self) -> dict[str, Any]:
        """Return the fields of the record."""
        latency = {"firstAudioMs": self.first_audio_ms, "turns": list(self.turns_ms)}
        return {"usage": dict(self.usage), "latency": latency}


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}
