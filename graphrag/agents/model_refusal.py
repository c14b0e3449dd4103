"""A refusal by a Realtime model's service: its code, parameter, sentence and waiting time.

Sources: OpenAI API reference, "Realtime server events" (`error`, `response.done`,
`rate_limits.updated`, `conversation.item.input_audio_transcription.failed`); codes and sentences of
public reports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast, final

from pydantic import Field

from graphrag.answer_body import AnswerBody

MAX_CODE_CHARS: Final = 100
MAX_MESSAGE_CHARS: Final = 500
_FINAL_CODES: Final = frozenset(
    (
        *("invalid_api_key", "model_not_found", "invalid_model", "insufficient_quota"),
        *(
            "billing_hard_limit_reached",
            "billing_not_active",
            "account_deactivated",
            "session_limit_reached",
        ),
    )
)
_FINAL_TYPES: Final = frozenset(("authentication_error", "permission_error", "insufficient_quota"))
_TRANSCRIPTION: Final = re.compile(
    r"input\.transcription|input_audio_transcription|transcri(?:be|ption)"
)
_WAIT: Final = re.compile(
    r"(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*)+)", re.IGNORECASE
)
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s)", re.IGNORECASE)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_KEY: Final = re.compile(r"\b(?:sk|ek)-[\w*-]{4,}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\s]+")


@final
class ModelRefusal(AnswerBody):
    """What the service of a Realtime model answered instead of doing what it was asked.

    `code` is the service's own, its type where it gives no code. `message` holds no key. Units:
    `wait_s` in seconds, None where the service does not say.
    """

    code: str = Field(max_length=MAX_CODE_CHARS)
    param: str | None = Field(default=None, max_length=MAX_CODE_CHARS)
    message: str = Field(default="", max_length=MAX_MESSAGE_CHARS)
    type: str = Field(default="", exclude=True, max_length=MAX_CODE_CHARS)
    wait_s: float | None = Field(default=None, exclude=True)

    @property
    def is_final(self) -> bool:
        """Whether every other request would be refused, too: key, model, quota."""
        return not self.is_rate_limit and (self.code in _FINAL_CODES or self.type in _FINAL_TYPES)

    @property
    def is_rate_limit(self) -> bool:
        """Whether the same request may be accepted later."""
        return "rate_limit" in self.code and self.code not in _FINAL_CODES

    @property
    def is_our_request(self) -> bool:
        """Whether the request is invalid, so that repeating it is useless."""
        return self.is_final or (self.type == "invalid_request_error" and not self.is_rate_limit)

    @property
    def is_about_transcription(self) -> bool:
        """Whether only the settings of the caller's transcription were refused."""
        return _TRANSCRIPTION.search(self.message if self.param is None else self.param) is not None

    def sentence(self) -> str:
        """Returns code, parameter and sentence in one line."""
        about = self.code if self.param is None else f"{self.code}, {self.param}"
        return f"{about}: {self.message}" if self.message else about


def refusal_of(error: object, *, code: str = "") -> ModelRefusal:
    """Returns the refusal of an error object; `code` if it has none."""
    facts: Mapping[str, Any] = cast(dict[str, Any], error) if isinstance(error, dict) else {}
    kind = _text(facts.get("type"), MAX_CODE_CHARS)
    message = _text(facts.get("message"), MAX_MESSAGE_CHARS)
    named = _text(facts.get("code"), MAX_CODE_CHARS) or kind or code or "unknown"
    param = _text(facts.get("param"), MAX_CODE_CHARS) or None
    return ModelRefusal(
        code=named, param=param, message=message, type=kind, wait_s=wait_of(message)
    )


def wait_of(message: str) -> float | None:
    """Returns the waiting time in a sentence ("Please try again in 1m26.4s") in seconds, or
    None.
    """
    found = _WAIT.search(message)
    if found is None:
        return None
    parts = _DURATION.findall(found[1])
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts) if parts else None


def _text(value: object, most: int) -> str:
    """Returns a text of the service in one line, with possible keys removed."""
    if not isinstance(value, str):
        return ""
    return _KEY.sub("[key]", _CONTROL.sub(" ", value).strip())[:most]
