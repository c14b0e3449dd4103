"""What goes wrong on one connection of the double."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Faults of a connection, none by default. Events are counted from 1, as they are sent.

    `refused_status`: the handshake is answered with it; `hangs`: it is never answered; `refused_code`: an
    error of this code is the only event. `closed_at`, `malformed_at`: the event of this number is a lost
    connection, or no JSON. `errors`: types of the client's events that get an error of a code instead of what
    they ask for; `ignored`: types that get nothing. `failed_responses`: so many of the first responses fail.
    `late_audio_s`: so long a response waits before its first sound. `late_words`: the caller's words come
    after the answer; `failed_words`: they are not understood. `nameless_errors`: errors do not say which
    event caused them.
    """

    refused_status: int | None = None
    refused_code: str | None = None
    hangs: bool = False
    closed_at: int | None = None
    malformed_at: int | None = None
    errors: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored: frozenset[str] = frozenset()
    failed_responses: int = 0
    late_audio_s: float = 0.0
    late_words: bool = False
    failed_words: bool = False
    nameless_errors: bool = False


NO_FAULTS = Faults()
