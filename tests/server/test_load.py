"""The load benchmarks in small, for what they check beside times: nothing is lost, doubled or reordered."""

from __future__ import annotations

import pytest

from tests.benchmarks import live_editing, streaming

pytestmark = pytest.mark.slow


async def test_many_streamed_answers_are_whole_and_in_order() -> None:
    figures = await streaming.measure(40, 30, 20)
    assert figures["first_p50_ms"] > 0


async def test_many_editors_see_every_edit_once_in_order() -> None:
    figures = await live_editing.measure(15, 10, 3)
    assert (figures["edits"], figures["seen"]) == (450, 6300)
