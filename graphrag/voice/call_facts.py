"""What a call costs and how fast it answers, for its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from graphrag.llm.prices import RealtimeTokens

MOST_TURNS: Final = 500
MOST_TOKENS: Final = 10**9


@dataclass(slots=True)
class CallFacts:
    """Tokens by kind with their cost, and how long the caller waited for the first sound and in each turn.

    `cost_usd` None: nobody knows the price.
    """

    usage: dict[str, int] = field(
        default_factory=lambda: {"audioIn": 0, "audioOut": 0, "textIn": 0, "textOut": 0}
    )
    cost_usd: float | None = 0.0
    first_audio_ms: int | None = None
    turns_ms: list[int] = field(default_factory=list[int])

    def used(self, tokens: RealtimeTokens, cost_usd: float | None) -> None:
        """Add what an answer used."""
        self.usage["audioIn"] += tokens.audio_in
        self.usage["audioOut"] += tokens.audio_out
        self.usage["textIn"] += tokens.text_in
        self.usage["textOut"] += tokens.text_out
        self.cost_usd = None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd

    def answered(self, seconds: float) -> None:
        """Note how long the caller waited for an answer."""
        if len(self.turns_ms) < MOST_TURNS:
            self.turns_ms.append(round(seconds * 1000))

    def document(self) -> dict[str, Any]:
        """Return the fields of the record."""
        latency = {"firstAudioMs": self.first_audio_ms, "turns": list(self.turns_ms)}
        cost = None if self.cost_usd is None else round(self.cost_usd, 6)
        return {"usage": {**self.usage, "costUsd": cost}, "latency": latency}


def tokens_of(event: Mapping[str, Any]) -> RealtimeTokens:
    """Return what a `response.done` says that was used."""
    usage = _object(_object(event.get("response")).get("usage"))
    into, out = _object(usage.get("input_token_details")), _object(usage.get("output_token_details"))
    return RealtimeTokens(
        audio_in=_number(into.get("audio_tokens")),
        text_in=_number(into.get("text_tokens")),
        cached=_number(into.get("cached_tokens")),
        audio_out=_number(out.get("audio_tokens")),
        text_out=_number(out.get("text_tokens")),
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < MOST_TOKENS else 0


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}
