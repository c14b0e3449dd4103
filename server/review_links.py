"""Where a person decides a proposal: the address in the page that other programs are given."""

from __future__ import annotations

from urllib.parse import urlencode

from graphrag.approvals import Approval
from graphrag.config import Settings


def review_link(settings: Settings, approval: Approval) -> str:
    """Return the address of a proposal in the page. It opens it; who may decide is asked there."""
    base = settings.public_url or f"http://{settings.host}:{settings.port}"
    parts = {"graph": approval.graph_key, "panel": "review", "approval": approval.id}
    return f"{base.rstrip('/')}/#{urlencode(parts)}"
