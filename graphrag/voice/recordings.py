"""Recordings of calls by the telephone service: the spoken notice, and what is stored of them.

Sound is never fetched: the record of a call keeps the ids, so that somebody can delete the
recordings at the service.

Source: https://www.twilio.com/docs/voice/twiml/recording (`<Start>`, `<Stop>` by its name, and the
parameters of `recordingStatusCallback`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from graphrag.agents.chat_values import Locale
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.voice.call_records import Call, Recording
from graphrag.voice.follow_up import relay_of, say_language

MAX_RECORDINGS: Final = 10  # of one call: one for each stream
MAX_SECONDS: Final = 86_400
CHARS_A_SECOND: Final = 8  # of slow speech, to know how long a notice takes at most
STATUSES: Final = frozenset(("in-progress", "completed", "absent", "failed"))
_SID: Final = re.compile(r"RE[0-9a-fA-F]{32}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOpening:
    """What happens before the stream of a call begins.

    `notice`: is spoken, in a voice and language of the telephone service. `records`: whether the
    service then records the call. `relay`: the attributes of ConversationRelay, None for a stream
    of sound.
    """

    notice: str = ""
    voice: str | None = None
    language: str | None = None
    records: bool = False
    relay: Mapping[str, str] | None = None


def opening_of(agent: CompiledAgent, locale: Locale) -> StreamOpening:
    """Returns what happens before the first stream of a call."""
    voice = agent.document.voice
    relay = relay_of(agent, locale)
    if not voice.recording.enabled:
        return StreamOpening(relay=relay)
    return StreamOpening(
        relay=relay,
        notice=voice.recording.notice or "",
        voice=voice.say_voice,
        language=say_language(agent, locale),
        records=True,
    )


def notice_s(agent: CompiledAgent) -> float:
    """Returns the longest time in seconds that the notice of an agent may take."""
    recording = agent.document.voice.recording
    return len(recording.notice or "") / CHARS_A_SECOND if recording.enabled else 0.0


def with_recording(call: Call, report: Mapping[str, str], now: int) -> Call:
    """Returns a call with what the telephone service reports of a recording.

    The same call for a report that is malformed, about another call, or beyond MAX_RECORDINGS.
    """
    sid = report.get("RecordingSid", "")
    status = report.get("RecordingStatus", "")
    is_other = call.call_sid is not None and report.get("CallSid") != call.call_sid
    if not _SID.fullmatch(sid) or status not in STATUSES or is_other:
        return call
    known = {recording.sid: recording for recording in call.recordings}
    before = known.get(sid, Recording(sid=sid, time=now))
    if before.status in ("completed", "absent", "failed"):
        return call
    length = report.get("RecordingDuration", "")
    is_number = length.isascii() and length.isdigit() and len(length) < 10
    changes: dict[str, Any] = {"status": status}
    if is_number and status == "completed":
        changes["seconds"] = min(int(length), MAX_SECONDS)
    known[sid] = before.model_copy(update=changes)
    recordings = list(known.values())
    if len(recordings) > MAX_RECORDINGS:
        return call
    return call.model_copy(update={"recordings": recordings})
