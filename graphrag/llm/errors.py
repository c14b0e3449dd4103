"""Errors of model providers.

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
    ├── ModelAnswerMalformed    what came is no answer of this protocol
    └── ModelEmptyReply         the answer is whole and holds nothing

Each carries facts as attributes. `reason` is the provider's own words, short and without keys, names of
internal hosts and addresses' secrets. `retryable`: the same call may work later.
"""

from __future__ import annotations

import re

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


def without_hosts(text: str) -> str:
    """Return a text without addresses and names of hosts that are not the public Internet's."""
    return _HOSTS.sub("[host]", text)


def without_secrets(text: str, *secrets: str | None) -> str:
    """Return a text, cut to MAX_REASON_CHARS, in which nothing that looks like a key is left."""
    for secret in secrets:
        if secret and len(secret) >= 4:
            text = text.replace(secret, "[hidden]")
    return _SECRETS.sub("[hidden]", text[: 10 * MAX_REASON_CHARS])[:MAX_REASON_CHARS]


class ModelError(Exception):
    """Base of what a provider raises on purpose. `retry_after_s`: the provider asked for this pause."""

    retryable = False
    says = "failed"

    def __init__(
        self,
        *,
        provider: str,
        reason: str,
        status: int | None = None,
        retryable: bool | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.provider, self.status, self.retry_after_s = provider, status, retry_after_s
        self.reason = without_hosts(without_secrets(reason))
        if retryable is not None:
            self.retryable = retryable
        where = f" (HTTP {status})" if status else ""
        super().__init__(f"{provider} {self.says}{where}" + (f": {self.reason}" if self.reason else ""))


class ModelUnauthorized(ModelError):
    says = "does not accept the key"


class ModelNoCredit(ModelError):
    says = "has no credit left for this account"


class ModelRateLimited(ModelError):
    retryable = True
    says = "allows no more requests now"


class ModelFailed(ModelError):
    retryable = True
    says = "failed"


class ModelRequestRefused(ModelError):
    says = "refused the request"


class ModelContextTooLong(ModelError):
    says = "cannot take a conversation this long"


class ModelContentFiltered(ModelError):
    says = "refused to answer"


class ModelTimedOut(ModelError):
    """`seconds` is how long was waited; 0 where the provider says that time was up."""

    retryable = True
    says = "did not answer in time"

    def __init__(
        self, *, provider: str, seconds: float = 0.0, reason: str = "", status: int | None = None
    ) -> None:
        self.seconds = seconds
        super().__init__(provider=provider, reason=reason or f"nothing came for {seconds:g} s", status=status)


class ModelUnreachable(ModelError):
    retryable = True
    says = "cannot be reached"


class ModelStreamBroken(ModelError):
    retryable = True
    says = "broke off its answer"


class ModelAnswerMalformed(ModelError):
    retryable = True
    says = "sent something that is no answer"


class ModelEmptyReply(ModelError):
    retryable = True
    says = "sent an empty answer"
