"""The workflow that the page offers where a workspace has no graph yet."""

from __future__ import annotations

from mock_data import load_text


def sample_workflow() -> bytes:
    """Returns an n8n workflow as a file that can be imported."""
    return load_text("workflows/order_refund.json").encode()
