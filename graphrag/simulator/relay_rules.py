"""The messages that ConversationRelay takes. Others it does not process (Twilio's error 64107).

Source: Twilio, "ConversationRelay: WebSocket messages", sent messages
(https://www.twilio.com/docs/voice/conversationrelay/websocket-messages).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

# fields by type of message: their types, and whether they are needed
_FIELDS: Final[Mapping[str, Mapping[str, tuple[type, bool]]]] = {
    "text": {
        "token": (str, True),
        "last": (bool, False),
        "lang": (str, False),
        "interruptible": (bool, False),
        "preemptible": (bool, False),
    },
    "play": {
        "source": (str, True),
        "loop": (int, False),
        "preemptible": (bool, False),
        "interruptible": (bool, False),
    },
    "sendDigits": {"digits": (str, True)},
    "language": {"ttsLanguage": (str, False), "transcriptionLanguage": (str, False)},
    "end": {"handoffData": (str, False)},
}


def invalid(raw: str | bytes) -> str | None:
    """Returns what is wrong with a message for Twilio, None if it is valid."""
    if not isinstance(raw, str):
        return "a binary message"
    try:
        message: Any = orjson.loads(raw)
    except ValueError:
        return "no JSON"
    if not isinstance(message, dict):
        return "no object"
    fields = cast(dict[str, Any], message)
    known = _FIELDS.get(str(fields.get("type")))
    if known is None:
        return "an unknown type"
    for name, value in fields.items():
        if name != "type" and (name not in known or type(value) is not known[name][0]):
            return f"the field {name}"
    missing = [name for name, (_, needed) in known.items() if needed and name not in fields]
    return f"without {missing[0]}" if missing else None
