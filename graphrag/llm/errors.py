"""Errors of model providers, and which of them an error answer means.

    ProviderError               of models and of embedders, whose own are in `embedding.embedder`
    ModelError
    ├── ModelUnauthorized       the key is missing, wrong or not allowed
    ├── ModelNoCredit           the account has no credit left, or a quota is used up
    ├── ModelRateLimited        too many requests or tokens
    ├── ModelFailed             the provider failed (5xx, overloaded)
    ├── ModelRequestRefused     the provider does not accept the request (400, unknown model)
    ├── ModelContextTooLong     the messages do not fit the model's window
    ├── ModelContentFiltered    a safety filter, or the model itself, refused
    ├── ModelTimedOut           nothing came for too long
    ├── ModelUnreachable        no connection, or it was lost before an answer began
    ├── ModelStreamBroken       the answer ended before it was whole
    └── ModelAnswerMalformed    what came is no answer of this protocol

Each carries facts as attributes. `reason` is the provider's own words, short and without keys,
names of internal hosts and addresses' secrets. `retryable`: the same call may work later.
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
"""Addresses, and names of hosts that are not the public Internet's."""


def without_secrets(text: str, *secrets: str | None) -> str:
    """Return a text, cut to MAX_REASON_CHARS, in which nothing that looks like a key is left."""
    for secret in secrets:
        if secret and len(secret) >= 4:
            text = text.replace(secret, "[hidden]")
    return _SECRETS.sub("[hidden]", text[: 10 * MAX_REASON_CHARS])[:MAX_REASON_CHARS]


class ProviderError(Exception):
    """Base of what a provider of models or embeddings raises on purpose. `status` is of HTTP.

    `retry_after_s`: the provider asked for this pause. A class is given what it `says` of the
    provider, and whether the call is `retryable` where nothing else is known.
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
    """Base of what a language model's provider raises on purpose."""


class ModelUnauthorized(ModelError, says="does not accept the key"): ...


class ModelNoCredit(ModelError, says="has no credit left for this account"): ...


class ModelRateLimited(ModelError, says="allows no more requests now", retryable=True): ...


class ModelFailed(ModelError, says="failed", retryable=True):
    """`loading`: the server still loads the model, and answers once it has."""

    def __init__(self, *, provider: str, reason: str, loading: bool = False, **facts: Any) -> None:
        self.loading = loading
        super().__init__(provider=provider, reason=reason, **facts)


class ModelRequestRefused(ModelError, says="refused the request"): ...


class ModelContextTooLong(ModelError, says="cannot take a conversation this long"): ...


class ModelContentFiltered(ModelError, says="refused to answer"): ...


class ModelTimedOut(ModelError, says="did not answer in time", retryable=True):
    """`seconds` is how long was waited; 0 where the provider says that time was up."""

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
_LOADING = re.compile(
    r"\bloading (?:the )?model\b|\bmodel is (?:still |being )?load(?:ing|ed)\b", re.IGNORECASE
)
"""What llama.cpp and servers like it say with status 503. Source: llama.cpp,
tools/server/README.md.
"""
MAX_SAID_CHARS = 2_000
_DEPTH = 5
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
"""Statuses of errors that come inside a stream, whose own is 200. Source: Anthropic's page
on API errors.
"""


def error_of(
    *,
    provider: str,
    secret: str | None,
    status: int,
    message: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> ModelError:
    """Return the error that an error answer means; `status` 0: it came without one,
    within a stream.

    The client libraries are generated by one tool and give the same facts of an answer.
    """
    if 300 <= status < 400:
        reason = "its address leads elsewhere, where nothing is sent: set the new one"
        return ModelRequestRefused(provider=provider, reason=reason, status=status)
    status = status if status >= 400 else _status_in(body)
    texts = list(_said(body)) or [message]  # most specific part first
    said = " / ".join(dict.fromkeys(text[:MAX_SAID_CHARS] for text in texts if text.strip()))
    facts: dict[str, Any] = {"provider": provider, "status": status or None}
    facts["reason"] = without_secrets(said, secret)
    if status == 402 or (status in (0, 400, 401, 403, 429) and _NO_CREDIT.search(said)):
        return ModelNoCredit(**facts)
    if (
        status in (0, 400, 403, 422)
        and _FILTERED.search(said)
        and not (status != 403 and too_long(said))
    ):
        return ModelContentFiltered(**facts)
    if status in (401, 403):
        return ModelUnauthorized(**facts)
    if status == 429:
        return ModelRateLimited(**facts, retry_after_s=retry_after_s(headers))
    if status == 413 or (status in (0, 400, 422, 500) and too_long(said)):
        return ModelContextTooLong(**facts)
    if status == 408:
        return ModelTimedOut(**facts)
    if status in (0, 409, 425) or status >= 500:
        retryable = (headers or {}).get("x-should-retry") != "false" and status != 501
        loading = status == 503 and _LOADING.search(said) is not None
        facts |= {"retry_after_s": retry_after_s(headers), "retryable": retryable}
        return ModelFailed(**facts, loading=loading)
    return ModelRequestRefused(**facts)


def too_long(words: str) -> bool:
    """Return whether an error's words say that the messages do not fit."""
    return bool(_TOO_LONG.search(words))


def retry_after_s(headers: Mapping[str, str] | None) -> float | None:
    """Return the pause asked for: milliseconds, seconds or a date. Source: RFC 9110, 10.2.3."""
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
    """Return the status that a body names itself, or under `error`, in place of a stream's
    200; else 0.
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


def _said(body: object, depth: int = 0) -> Iterator[str]:
    """Yield the texts of an error's body, most specific first, wherever a server puts them.

    As text, as `error`, `message` or `detail` (a text, an object, or a list of either), and as what
    another provider said before, which some hand on as text within `metadata.raw`.
    """
    if isinstance(body, str):
        text = body.strip()
        if text[:1] in ("{", "["):
            try:
                yield from _said(json.loads(text), depth + 1)
            except (ValueError, RecursionError):
                yield text
        elif text:
            yield text
    elif isinstance(body, list) and depth < _DEPTH:
        for item in cast(list[object], body)[:3]:
            yield from _said(item, depth + 1)
    elif isinstance(body, Mapping) and depth < _DEPTH:
        found = cast(Mapping[str, Any], body)
        for name in ("message", "msg", "error", "detail", "metadata", "raw", "type", "code"):
            if name in found:
                yield from _said(found[name], depth + 1)
