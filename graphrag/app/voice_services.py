"""Puts the telephone calls of a workspace together: their records, their places, and who speaks in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from graphrag.agent.turn_lease import TurnLeases
from graphrag.config import Settings
from graphrag.leases import now_ms
from graphrag.voice.call_life import CallLife
from graphrag.voice.call_places import CallPlaces
from graphrag.voice.call_records import CallRecords
from graphrag.voice.call_watch import CallWatch, NoCallWatch
from graphrag.voice.calls import Calls
from graphrag.voice.ringing_calls import CallSetting

if TYPE_CHECKING:
    from graphrag.app.wiring import Services


def speaker_of(settings: Settings) -> Literal["openai", "double", "off"]:
    """Return whose model speaks in calls: what is set, else OpenAI's where its key is."""
    if settings.realtime != "auto":
        return settings.realtime
    return "off" if realtime_key(settings) is None else "openai"


def realtime_key(settings: Settings) -> str | None:
    """Return the key of the Realtime interface, None without one."""
    key = settings.realtime_api_key or settings.key_of("OPENAI_API_KEY")
    return key.get_secret_value() if key is not None else None


def calls_of(
    services: Services, *, places: CallPlaces | None = None, watch: CallWatch | None = None
) -> Calls:
    """Return the calls of a workspace. `places`: those of the process; without them none is served here."""
    settings, watch = services.settings, watch or NoCallWatch()
    stored = services.database.records(settings.workspace)
    records, leases = CallRecords(stored, settings.workspace), TurnLeases(stored)
    ends = CallLife(
        stored,
        records,
        services.threads,
        leases,
        services.life,
        watch,
        retention_days=settings.call_retention_days,
        clock=now_ms,
    )
    setting = CallSetting(
        records=records,
        agents=services.agents,
        threads=services.threads,
        leases=leases,
        life=services.life,
        ends=ends,
        places=places or CallPlaces(settings.voice_max_calls),
        watch=watch,
    )
    return Calls(setting)
