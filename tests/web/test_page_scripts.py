"""Runs the page's pure modules in Node.js, its document operations against the server's."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import Phase as Steps
from hypothesis import given, settings

from datasources.errors import InstructionError
from datasources.instructions import Op, apply_instruction
from graphrag.agent.thread_agent import EndReason as EndOfCall
from graphrag.automations.automation import PauseReason, SkipReason
from graphrag.commands.graph_history import iso
from graphrag.i18n import LANGUAGES, page_texts
from graphrag.sessions.agent_session import Outcome, Trigger
from graphrag.sessions.periods import Calendar, resolve
from graphrag.sessions.phases import EndReason, Phase
from graphrag.sessions.schedules import zone_of
from graphrag.simulator import mu_law
from tests.datasources import test_instructions as operations
from tests.support.agent_documents import agent_document

HERE = Path(__file__).parent
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        NODE is None, reason="no Node.js on this machine: install `node` (20 or later)"
    ),
]


def run(script: str, **environment: str) -> None:
    assert NODE is not None
    path = {"PATH": str(Path(NODE).parent), **environment}
    done = subprocess.run(
        [NODE, "--test", str(HERE / script)],
        capture_output=True,
        text=True,
        env=path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_history_says_of_an_edit() -> None:
    run("names.test.mjs")


def test_the_steps_of_an_answer() -> None:
    run("trace.test.mjs")


def test_the_phases_of_a_conversation() -> None:
    run("phases.test.mjs")


def test_an_address_says_what_is_shown_and_is_read_back() -> None:
    run("router.test.mjs")


def test_proposals_as_the_server_sends_them() -> None:
    run("approvals.test.mjs")


def test_code_before_and_after_in_rows_and_words() -> None:
    run("codes.test.mjs")


def test_a_field_that_two_people_write_as_text() -> None:
    run("text-edit.test.mjs")


def test_the_first_entries_of_a_result() -> None:
    run("results.test.mjs")


def test_schedules_and_where_a_run_of_the_server_stands() -> None:
    phases, ends = (",".join(each.value for each in kind) for kind in (Phase, EndReason))
    run("automations.test.mjs", PHASES=phases, ENDS=ends)
    for language in LANGUAGES:
        known = page_texts(language)
        named = {f"auto.phase.{phase}" for phase in Phase if phase is not Phase.COMPLETED}
        named |= {f"auto.ended.{end}" for end in EndReason}
        named |= {f"auto.paused.{why}" for why in get_args(PauseReason)}
        named |= {f"auto.skipped.{why}" for why in get_args(SkipReason)}
        named |= {f"auto.found.{outcome}" for outcome in get_args(Outcome)}
        named |= {f"auto.trigger.{trigger}" for trigger in get_args(Trigger)}
        assert named <= set(known)


def test_what_an_answer_highlights_and_its_colours() -> None:
    run("highlights.test.mjs")


def test_documents_of_agents_and_who_may_be_chosen() -> None:
    documents = [agent_document()]
    run("agents.test.mjs", DOCUMENTS=json.dumps(documents))


def test_sound_of_calls_and_what_is_known_of_them(tmp_path: Path) -> None:
    samples = np.arange(-(1 << 15), 1 << 15)
    sounds = mu_law.decode(bytes(range(256)))
    table = {
        "encoded": list(
            zip(samples.tolist(), mu_law.encode(samples.astype(np.int16)), strict=True)
        ),
        "decoded": sounds.tolist(),
    }
    file = tmp_path / "table.json"
    file.write_text(json.dumps(table))
    run("calls.test.mjs", TABLE=str(file))
    for language in LANGUAGES:
        assert {f"calls.end.{reason}" for reason in get_args(EndOfCall)} <= set(
            page_texts(language)
        )


def test_blocks_of_a_message_and_their_periods() -> None:
    run("blocks.test.mjs", PERIODS=json.dumps(periods()))


def periods() -> list[dict[str, Any]]:
    """Return what the server makes of relative periods, as a message stores it, with
    what was meant.
    """
    meant = [
        ("0_DAY", "NOW"), ("-1_DAY", "-1_DAY"), ("-7_DAY", "NOW"), ("-30_DAY", "NOW"), ("-3_DAY", "-2_DAY"),
        ("-1_WEEK", "-1_WEEK"), ("-1_MONTH", "-1_MONTH"), ("-3_MONTH", "-2_MONTH"), ("-1_YEAR", "-1_YEAR"),
        ("-5_HOUR", "-2_HOUR"), ("-2_HOUR", "NOW"),
    ]  # fmt: skip
    zones = ["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata"]
    made: list[dict[str, Any]] = []
    for (start, end), zone in itertools.product(meant, zones):
        calendar = Calendar(timezone=zone)
        for day in ("2026-11-18", "2026-03-31"):
            sent = round(datetime.fromisoformat(f"{day}T13:37:21+00:00").timestamp() * 1000)
            span = resolve(start, end, sent, calendar)
            first, last = (iso(at, zone_of(zone)) for at in (span.start, span.end))
            made.append(
                {"from": first, "to": last, "meant": {"from": start, "to": end}, "sent": sent + 40}
            )
    return made


@pytest.mark.parametrize("drawn", [0, pytest.param(600, marks=pytest.mark.slow)])
def test_every_document_operation_of_the_page_does_what_the_server_does(
    tmp_path: Path, drawn: int
) -> None:
    made = server_cases(drawn)
    assert {case["instruction"]["o"] for case in made} == set(Op), "an operation has no case"
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(made))
    run("operations.test.mjs", CASES=str(file))


def server_cases(drawn: int) -> list[dict[str, Any]]:
    """Return documents, instructions and what the server makes of them; a page is
    sent no refused one.

    Beside the table of the server's own test `drawn` cases are made up.
    """
    found: list[tuple[Any, dict[str, Any]]] = [
        (operations.DOCUMENT, instruction) for instruction, _, _ in operations.OPERATIONS
    ]

    if drawn:
        found += drawn_cases(drawn)
    made: list[dict[str, Any]] = []
    for document, instruction in found:
        try:
            after = apply_instruction(document, instruction)
        except InstructionError:
            continue
        made.append({"document": document, "instruction": instruction, "after": after})
    return made


def drawn_cases(count: int) -> list[tuple[Any, dict[str, Any]]]:
    found: list[tuple[Any, dict[str, Any]]] = []

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, phases=[Steps.generate]
    )
    @given(operations.cases())
    def collect(case: tuple[Any, dict[str, Any]]) -> None:
        found.append(case)

    collect()
    return found
