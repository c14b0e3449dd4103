"""Rendered templates in the log: at debug alone, secrets masked, numbers shortened, bounded."""

import json
import logging
from typing import Any

import pytest

from tests.tools.http.test_http_executor import KEY, Bench, bench  # noqa: F401 - a fixture
from tools.http.rendered_log import MAX_CHARS, log_text, shown
from tools.http.secret_values import Secrets

NUMBER = "+33612345678"


def rendered(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [each for each in caplog.records if each.getMessage() == "template_rendered"]


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
async def test_the_requests_of_a_tool_are_logged_as_rendered_at_debug_alone(
    bench: Bench,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
    level: int,
) -> None:
    caplog.set_level(level, logger="tools")
    await bench.run(
        {"note": f"call {NUMBER}, key {KEY}"},
        method="POST",
        headers={"Authorization": "Bearer {{secret.API_KEY}}"},
        params={"from": NUMBER},
        pre_steps=[{"url": "{{base_url}}/step"}],
        body={"note": "{{args.note}}"},
    )
    logged = rendered(caplog)
    if level == logging.INFO:
        assert logged == []
        return
    step, main = logged
    assert (step.step, main.step, main.where) == ("1", "0", "tools.t")
    assert (main.agent_id, main.call_id, main.method) == ("a1", "t1", "POST")
    assert json.loads(main.rendered) == {"note": "call +33…78, key [secret API_KEY]"}
    assert main.url.endswith("/x?from=%2B33…78")
    assert "Authorization" in main.headers
    everything = str([vars(each) for each in logged])
    assert KEY not in everything
    assert NUMBER[1:] not in everything


def test_texts_are_bounded_and_numbers_shortened(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="tools")
    log_text("greeting", "a" * 2 * MAX_CHARS, Secrets({}), {"call_id": "c"})
    (entry,) = rendered(caplog)
    assert (len(entry.rendered), entry.where, entry.call_id) == (MAX_CHARS, "greeting", "c")
    assert shown("0612345678 in 2025, order 42", Secrets({})) == "06…78 in 2025, order 42"
