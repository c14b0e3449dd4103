"""Addresses of the page: what each opens, as `server/web/js/router.js` reads them."""

from __future__ import annotations

from urllib.parse import urlencode


def page_address(graph_key: str | None, **parts: str) -> str:
    """Returns the address within the page that opens a graph, and in it a panel, a proposal, a run
    or a call (`panel`, `approval`, `run`, `call`).
    """
    named = {} if graph_key is None else {"graph": graph_key}
    return f"#{urlencode({**named, **parts})}"
