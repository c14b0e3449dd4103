"""Writes events for the model side and reads its events, by their names of the GA interface.

Source: OpenAI API reference, "Realtime client events" and "Realtime server events".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from graphrag.llm.registry import RealtimeTokens

# older names, which some servers still send
_GA_NAMES: Mapping[str, str] = {
    "response.audio.delta": "response.output_audio.delta",
    "response.audio.done": "response.output_audio.done",
    "response.audio_transcript.delta": "response.output_audio_transcript.delta",
    "response.audio_transcript.done": "response.output_audio_transcript.done",
    "response.text.delta": "response.output_text.delta",
    "response.text.done": "response.output_text.done",
}

FILLER: Final = "filler"
MAX_ID_CHARS: Final = 256
MAX_TOKENS: Final = 10**9  # of one event; larger counts are ignored
_IDS = ("id", "item_id", "previous_item_id", "response_id", "call_id")


def read_event(raw: str | bytes) -> dict[str, Any] | None:
    """Returns a parsed event, None for a malformed one or one with ids over the limit."""
    try:
        parsed: Any = orjson.loads(raw)
    except ValueError:
        return None
    event = cast(dict[str, Any], parsed) if isinstance(parsed, dict) else {}
    objects = [
        event,
        *(event[name] for name in ("item", "response") if isinstance(event.get(name), dict)),
    ]
    ids = (str(part.get(name, "")) for part in objects for name in _IDS)
    if not isinstance(event.get("type"), str) or any(len(text) > MAX_ID_CHARS for text in ids):
        return None
    name = _GA_NAMES.get(event["type"])
    return event if name is None else {**event, "type": name}


def append_frame(payload: str) -> str:
    """Returns the frame with the caller's sound, written without a JSON encoder."""
    return f'{{"type":"input_audio_buffer.append","audio":"{payload}"}}'


def text_item(role: str, text: str) -> dict[str, Any]:
    """Returns a message item with a text."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def output_item(call_id: str, output: str) -> dict[str, Any]:
    """Returns an item with the output of a tool."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def filler_response(instructions: str) -> dict[str, Any]:
    """Returns a response outside the conversation, marked by its `metadata`."""
    return {
        "conversation": "none",
        "input": [],
        "tool_choice": "none",
        "metadata": {"purpose": FILLER},
        "instructions": instructions,
    }


def spoken_response(instructions: str) -> dict[str, Any]:
    """Returns a response that only speaks given words, without input and tools."""
    return {
        "input": [],
        "tool_choice": "none",
        "output_modalities": ["audio"],
        "instructions": instructions,
    }


def is_filler(response: Mapping[str, Any]) -> bool:
    """Returns True for a response of `filler_response`."""
    metadata = response.get("metadata")
    return isinstance(metadata, dict) and cast(dict[str, Any], metadata).get("purpose") == FILLER


def object_of(value: Any) -> Mapping[str, Any]:
    """Returns a JSON object, an empty one for any other value."""
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def tokens_of(usage: Mapping[str, Any]) -> RealtimeTokens:
    """Returns the token counts of the `usage` of a response or a transcription.

    Cached tokens of an unknown kind count as text first, which saves less than audio.
    """

    def count(*path: str) -> int:
        value: Any = usage
        for name in path:
            value = object_of(value).get(name)
        return value if isinstance(value, int) and 0 <= value < MAX_TOKENS else 0

    into = "input_token_details" if "input_token_details" in usage else "input_tokens_details"
    out = "output_token_details" if "output_token_details" in usage else "output_tokens_details"
    audio, text, image = (count(into, f"{kind}_tokens") for kind in ("audio", "text", "image"))
    spoken = count(out, "audio_tokens")
    written = count(out, "text_tokens")
    kinds = {
        f"cached_{kind}": count(into, "cached_tokens_details", f"{kind}_tokens")
        for kind in ("audio", "text", "image")
    }
    if not any(kinds.values()):
        cached = count(into, "cached_tokens")
        kinds["cached_text"] = min(cached, text)
        kinds["cached_audio"] = min(cached - kinds["cached_text"], audio)
    seconds = usage.get("seconds")
    return RealtimeTokens(
        audio_in=audio,
        text_in=text if audio or text or image else count("input_tokens"),
        image_in=image,
        audio_out=spoken,
        text_out=written if spoken or written else count("output_tokens"),
        audio_s=float(seconds)
        if isinstance(seconds, int | float) and 0 <= seconds < MAX_TOKENS
        else 0.0,
        **kinds,
    )
