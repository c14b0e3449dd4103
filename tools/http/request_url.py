"""The URL of a request in a document: a literal origin or the base URL, followed by a template."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import quote, urlsplit

from tools.http.addresses import Origin, origin_of
from tools.http.fetch import KEPT_IN_URL
from tools.http.problems import BadText
from tools.http.scope import Read
from tools.http.value_templates import ValueTemplate, parse_template

_BASE_URL = re.compile(r"\{\{\s*base_url\s*\}\}(?=[/?]|\Z)")
_LITERAL = re.compile(r"https?://[^/?#{}\s\\]+(?=[/?]|\Z)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUrl:
    """A URL. `literal`: its literal scheme, host and port; None if it begins with `{{base_url}}`.

    `rest`: the template of path and query. `path_text`: the path without rendering, for logs.
    """

    source: str
    literal: str | None
    rest: ValueTemplate = field(repr=False)

    @property
    def reads(self) -> tuple[Read, ...]:
        return self.rest.reads

    @property
    def path_text(self) -> str:
        return self.rest.source.partition("?")[0][:200]

    def beginning(self, base_url: str | None) -> tuple[Origin, str]:
        """Returns the origin of the request, and the literal start of its path.

        Raises: BadText (missing_base_url, host_not_literal).
        """
        if self.literal is None and base_url is None:
            raise BadText("missing_base_url", "the document has no base_url", column=1)
        try:
            return _beginning(self.literal or str(base_url).rstrip("/"))
        except ValueError as exc:
            raise BadText("host_not_literal", str(exc), allowed="https://HOST:PORT") from exc


def parse_url(source: str) -> RequestUrl:
    """Returns the parsed URL. Raises: BadText (host_not_literal, and those of a template)."""
    based = _BASE_URL.match(source)
    begin = based or _LITERAL.match(source)
    if begin is None:
        what = "scheme, host and port have to be literal or {{base_url}}"
        raise BadText("host_not_literal", what, allowed="https://HOST/…, {{base_url}}/…", column=1)
    whole = parse_template(source)  # the whole text, so that columns in errors are right
    first = () if based else (str(whole.parts[0]).removeprefix(begin[0]),)
    rest = replace(
        whole,
        source=source[begin.end() :],
        parts=(*filter(None, first), *whole.parts[1:]),
        reads=whole.reads[1:] if based else whole.reads,
    )
    url = RequestUrl(source=source, literal=None if based else begin[0], rest=rest)
    if not based:
        url.beginning(None)
    return url


@lru_cache(maxsize=64)
def _beginning(address: str) -> tuple[Origin, str]:
    """Returns the origin and path of a URL. Cached: most URLs of a document have the same start.

    Raises: ValueError.
    """
    return origin_of(address), quote(urlsplit(address).path, safe=KEPT_IN_URL)
