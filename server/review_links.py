"""Where a person decides a proposal: the address in the page that other programs are given."""

from __future__ import annotations

from urllib.parse import urlencode

from graphrag.approvals import Approval
from graphrag.config import Settings


def page_url(settings: Settings) -> str:
    """Return the address of the page, as other programs are given it; without a slash at its end."""
    return (settings.public_url or f"http://{settings.host}:{settings.port}").rstrip("/")


def review_link(settings: Settings, approval: Approval) -> str:
    """Return the address of a proposal in the page. It opens it; who may decide is asked there."""
    parts = {"graph": approval.graph_key, "panel": "review", "approval": approval.id}
    return f"{page_url(settings)}/#{urlencode(parts)}"
