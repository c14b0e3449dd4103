"""Errors of model providers, and their choice for an HTTP error.

    ProviderError               base for models and embedders (see `embedding.embedder`)
    ModelError
    ├── ModelUnauthorized       the key is missing, wrong or not allowed
    ├── ModelNoCredit           the account has no credit left, or a quota is used up
    ├── ModelRateLimited        too many requests or tokens
    ├── ModelFailed             the provider failed (5xx, overloaded)
    ├── ModelRequestRefused     the provider does not accept the request (400, unknown model)
    ├── ModelNotUsable          the settings do not suffice for it (no key, no such provider)
    ├── ModelContextTooLong     the messages do not fit the model's window
    ├── ModelContentFiltered    a safety filter, or the model itself, refused
    ├── ModelTimedOut           nothing was received in time
    ├── ModelUnreachable        no connection, or it was lost before an answer began
    ├── ModelStreamBroken       the answer ended before it was complete
    └── ModelAnswerMalformed    the data received is not an answer of this protocol

Each carries facts as attributes. `reason`: the provider's message, shortened, without keys,
internal host names and credentials in addresses. `retryable`: the same call may succeed later.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

MAX_REASON_CHARS = 300

_SECRETS = re.compile(
    r"""(?P<url>(?<=://)[^/\s@]+(?=@))                                   # user and password of an address
    | (?P<query>(?<=[?&])(?:api[-_]?key|key|token|access_token|sig|signature)=[^&\s"']+)
    | (?P<bearer>\bBearer\s+\S+)
    | (?P<key>\b(?:sk|pk|rk|gsk|xai)[-_][A-Za-z0-9*._-]{6,}|\bAIza[A-Za-z0-9_-]{10,})""",
    re.VERBOSE | re.IGNORECASE,
)
# IP addresses, and names of hosts that are not on the public Internet.
_HOSTS = re.compile(
    r"""(?P<port>\b[a-z][\w-]*(?:\.[\w-]+)*:(?:80|443|\d{4,5})\b)  # a name with a port
    | (?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}\b)
    | (?P<ip6>\[[0-9a-f:]{3,}\])
    | (?P<inner>\b[\w-]+(?:\.[\w-]+)*
        \.(?:local|localdomain|internal|intranet|intra|lan|corp|home|svc|cluster)\b)
    | (?P<bare>(?<=://)[\w-]+(?=[/\s'"?,)]|$))
    | (?P<field>(?<=host=['"])[^'"]+)""",
    re.VERBOSE | re.IGNORECASE,
)


def without_secrets(text: str, *secrets: str | None) -> str:
    """Returns the text without anything that looks like a key, cut to MAX_REASON_CHARS."""
    for secret in secrets:
        if secret and len(secret) >= 4:
            text = text.replace(secret, "[hidden]")
    return _SECRETS.sub("[hidden]", text[: 10 * MAX_REASON_CHARS])[:MAX_REASON_CHARS]


class ProviderError(Exception):
    """Base of the errors of providers of models and embeddings. `status`: the HTTP status.

    `retry_after_s`: the pause that the provider asked for. Subclasses declare `says`, the predicate
    of the message, and `retryable`, the default.
    """

    status: int | None = None
    retry_after_s: float | None = None
    retryable = False
    says = "failed"

    def __init_subclass__(cls, *, says: str = "", retryable: bool = False) -> None:
        cls.says = says or cls.says
        cls.retryable = retryable or cls.retryable

    def __init__(
        self,
        *,
        provider: str,
        reason: str,
        status: int | None = None,
        retryable: bool | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.provider = provider
        self.status = status
        self.retry_after_s = retry_after_s
        self.reason = _HOSTS.sub("[host]", without_secrets(reason))
        if retryable is not None:
            self.retryable = retryable
        where = f" (HTTP {status})" if status else ""
        super().__init__(
            f"{provider} {self.says}{where}" + (f": {self.reason}" if self.reason else "")
        )


class ModelError(ProviderError):
    """Base of the errors of providers of language models."""


class ModelUnauthorized(ModelError, says="does not accept the key"): ...


class ModelNoCredit(ModelError, says="has no credit left for this account"): ...


class ModelRateLimited(ModelError, says="allows no more requests now", retryable=True): ...


class ModelFailed(ModelError, says="failed", retryable=True):
    """`loading`: the server is still loading the model and will answer afterwards."""

    def __init__(self, *, provider: str, reason: str, loading: bool = False, **facts: Any) -> None:
        self.loading = loading
        super().__init__(provider=provider, reason=reason, **facts)


class ModelRequestRefused(ModelError, says="refused the request"): ...


class ModelNotUsable(ModelError, says="cannot be used"):
    """The settings do not suffice for a model that an automation names. `setting`: its name."""

    def __init__(self, *, provider: str, reason: str, setting: str) -> None:
        self.setting = setting
        super().__init__(provider=provider, reason=reason)


class ModelContextTooLong(ModelError, says="cannot take a conversation this long"): ...


class ModelContentFiltered(ModelError, says="refused to answer"): ...


class ModelTimedOut(ModelError, says="did not answer in time", retryable=True):
    """`seconds`: how long was waited; 0 if the provider reported the timeout."""

    def __init__(
        self, *, provider: str, seconds: float = 0.0, reason: str = "", status: int | None = None
    ) -> None:
        self.seconds = seconds
        super().__init__(
            provider=provider, reason=reason or f"nothing came for {seconds:g} s", status=status
        )


class ModelUnreachable(ModelError, says="cannot be reached", retryable=True): ...


class ModelStreamBroken(ModelError, says="broke off its answer", retryable=True): ...


class ModelAnswerMalformed(ModelError, says="sent something that is no answer", retryable=True): ...


_TOO_LONG = re.compile(
    r"context[ _]?length|context[ _]window|context[ _]size|maximum context|prompt is too long|"
    r"input is too long|too many (?:input )?tokens|token limit exceeded|request_too_large|"
    r"(?:prompt|input|messages?)\b.{0,40}\btoo (?:long|large)\b|exceed_context|context the overflows|"
    r"exceeds? the (?:maximum|available|model'?s?)\b.*\b(?:tokens|context)|reduce the length",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[ _]?(?:filter|policy|management)|ResponsibleAI|Content Exists Risk|data_inspection_failed|"
    r"content_policy_violation|safety (?:system|filter)|flagged|moderation",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"insufficient[_ ](?:quota|balance|credits?|funds)|exceeded your current quota|"
    r"credit balance|(?:no|out of|not enough|more) credits?\b|billing[_ ](?:hard|error|not)|top up",
    re.IGNORECASE,
)
# Messages of llama.cpp and similar servers with status 503. Source: llama.cpp,
# tools/server/README.md.
_LOADING = re.compile(
    r"\bloading (?:the )?model\b|\bmodel is (?:still |being )?load(?:ing|ed)\b", re.IGNORECASE
)
MAX_PART_CHARS = 2_000
_DEPTH = 5
# HTTP statuses of errors inside a stream, whose own status is 200. Source: Anthropic's page on API
# errors.
_BY_TYPE = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "authentication_error": 401,
    "permission_error": 403,
    "billing_error": 402,
    "insufficient_quota": 402,
    "not_found_error": 404,
    "request_too_large": 413,
    "invalid_request_error": 400,
}


def error_of(
    *,
    provider: str,
    secret: str | None,
    status: int,
    message: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> ModelError:
    """Returns the error for an HTTP error answer. `status` 0: the error came inside a stream.

    The client libraries are generated by one tool and report the same facts of an answer.
    """
    if 300 <= status < 400:
        reason = "its address redirects, which is not followed: set the new one"
        return ModelRequestRefused(provider=provider, reason=reason, status=status)
    status = status if status >= 400 else _status_in(body)
    texts = list(_messages_in(body)) or [message]  # most specific part first
    message_text = " / ".join(
        dict.fromkeys(text[:MAX_PART_CHARS] for text in texts if text.strip())
    )
    facts: dict[str, Any] = {"provider": provider, "status": status or None}
    facts["reason"] = without_secrets(message_text, secret)
    if status == 402 or (status in (0, 400, 401, 403, 429) and _NO_CREDIT.search(message_text)):
        return ModelNoCredit(**facts)
    if (
        status in (0, 400, 403, 422)
        and _FILTERED.search(message_text)
        and not (status != 403 and too_long(message_text))
    ):
        return ModelContentFiltered(**facts)
    if status in (401, 403):
        return ModelUnauthorized(**facts)
    if status == 429:
        return ModelRateLimited(**facts, retry_after_s=retry_after_s(headers))
    if status == 413 or (status in (0, 400, 422, 500) and too_long(message_text)):
        return ModelContextTooLong(**facts)
    if status == 408:
        return ModelTimedOut(**facts)
    if status in (0, 409, 425) or status >= 500:
        retryable = (headers or {}).get("x-should-retry") != "false" and status != 501
        loading = status == 503 and _LOADING.search(message_text) is not None
        facts |= {"retry_after_s": retry_after_s(headers), "retryable": retryable}
        return ModelFailed(**facts, loading=loading)
    return ModelRequestRefused(**facts)


def too_long(message: str) -> bool:
    """Returns whether an error message says that the conversation exceeds the model's window."""
    return bool(_TOO_LONG.search(message))


def retry_after_s(headers: Mapping[str, str] | None) -> float | None:
    """Returns the requested pause, given as milliseconds, seconds or a date. Source: RFC 9110,
    10.2.3.
    """
    if not headers:
        return None
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(
            0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time()
        )
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _status_in(body: object) -> int:
    """Returns the status that the body of an error in a stream contains, itself or under `error`;
    else 0.
    """
    if not isinstance(body, Mapping):
        return 0
    outer = cast(Mapping[str, Any], body)
    inner = (
        cast(Mapping[str, Any], outer["error"])
        if isinstance(outer.get("error"), Mapping)
        else outer
    )
    code = inner.get("code")
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    return _BY_TYPE.get(str(inner.get("type")), 0)


def _messages_in(body: object, depth: int = 0) -> Iterator[str]:
    """Yields the messages in the body of an error, most specific first.

    They may be the body itself, under `error`, `message` or `detail` (a text, an object, or a list
    of either), or the message of another provider, which some gateways include as text in
    `metadata.raw`.
    """
    if isinstance(body, str):
        text = body.strip()
        if text[:1] in ("{", "["):
            try:
                yield from _messages_in(json.loads(text), depth + 1)
            except (ValueError, RecursionError):
                yield text
        elif text:
            yield text
    elif isinstance(body, list) and depth < _DEPTH:
        for item in cast(list[object], body)[:3]:
            yield from _messages_in(item, depth + 1)
    elif isinstance(body, Mapping) and depth < _DEPTH:
        fields = cast(Mapping[str, Any], body)
        for name in ("message", "msg", "error", "detail", "metadata", "raw", "type", "code"):
            if name in fields:
                yield from _messages_in(fields[name], depth + 1)
