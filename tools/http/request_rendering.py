"""Renders requests of agent documents: their address, headers and body."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, cast, final
from urllib.parse import quote, urlencode

from tools.http.compiled import secrets_of
from tools.http.fetch import KEPT_IN_URL, PreparedRequest, RequestFailed
from tools.http.filters import TemplateFailed, as_text
from tools.http.model import RequestLike
from tools.http.request_url import RequestUrl
from tools.http.scope import Scope
from tools.http.secret_values import Secrets
from tools.http.value_tree import ValueTree


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits of a request. Units: characters, seconds."""

    header_chars: int = 8_000
    url_chars: int = 8_000
    request_s: float = 10.0
    """Timeout of requests without a timeout of their own."""


REQUEST_LIMITS: Final = RequestLimits()

_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@final
class RequestRenderer:
    """Renders the requests of one agent, with the values of its secrets in the headers."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def rendered(
        self,
        request: RequestLike,
        scope: Scope,
        *,
        key: str,
        retries: int = 1,
        body: Any = None,
        dry: bool = False,
    ) -> PreparedRequest:
        """Returns a rendered request. `body`: for requests without a body template. `dry` masks the
        secrets.

        Raises: RequestFailed, TemplateFailed.
        """
        if request.body is not None:
            body = request.body.render(scope, drop_null=True)
        assert request.url is not None
        origin, prefix = request.url.beginning(scope.lookup(("base_url",)))
        target = prefix + _target(request.url, request.params, scope)
        if len(target) > REQUEST_LIMITS.url_chars:
            raise TemplateFailed("template_error", "the address is too long")
        return PreparedRequest(
            method=request.method,
            origin=origin,
            target=target if target.startswith("/") else f"/{target}",
            headers=self._headers(request, scope, dry=dry),
            body=None if body is None else _json_bytes(body),
            timeout_s=request.timeout_s or REQUEST_LIMITS.request_s,
            retries=retries,
            key=key,
            secret_headers=frozenset(
                name for name, text in request.headers.items() if secrets_of(text)
            ),
            path_text=prefix + request.url.path_text,
        )

    def _headers(
        self, request: RequestLike, scope: Scope, *, dry: bool
    ) -> tuple[tuple[str, str], ...]:
        headers: list[tuple[str, str]] = []
        for header, template in request.headers.items():
            named = secrets_of(template)
            secrets = {name: f"[secret {name}]" for name in named}
            if not dry and named:
                secrets = self._secrets.values(named)
                if missing := self._secrets.missing(named):
                    raise RequestFailed("secret_missing", fact=", ".join(missing))
            value = template.render(Scope({**scope.roots, "secret": secrets}))
            text = as_text(value).strip(" ")
            if len(text) > REQUEST_LIMITS.header_chars or _UNSENDABLE.search(text):
                raise TemplateFailed("template_error", f"{header} cannot hold this value")
            if value is not None:
                headers.append((header, text))
        return tuple(headers)


def unrendered(failed: TemplateFailed) -> RequestFailed:
    """Returns the error for the model. It contains the name of a value, but never the value."""
    if failed.code == "missing_value":
        return RequestFailed("missing_value", fact=failed.path)
    return RequestFailed("template_error")


def _target(url: RequestUrl, params: ValueTree, scope: Scope) -> str:
    """Returns the path and query of a request, without the literal start of the path.

    Raises: TemplateFailed.
    """
    try:
        target = quote(url.rest.render(scope, insert="url"), safe=KEPT_IN_URL)
        query = _query(params.render(scope, drop_null=True))
    except UnicodeEncodeError:
        raise TemplateFailed("template_error", "a value of the address is no valid text") from None
    if query:
        target += f"{'&' if '?' in target else '?'}{query}"
    return target


def _query(params: Any) -> str:
    """Returns the query string. A list repeats its name for each element."""
    pairs: list[tuple[str, str]] = []
    for name, value in cast(dict[str, Any], params or {}).items():
        values = cast(list[Any], value) if isinstance(value, list) else [value]
        pairs += [(name, as_text(element)) for element in values if element is not None]
    return urlencode(pairs, quote_via=quote, safe="")


def _json_bytes(body: Any) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError):
        raise TemplateFailed("template_error", "the body is no JSON") from None
