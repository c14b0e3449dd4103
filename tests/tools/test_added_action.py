"""A write tool is one module, its line in the list of actions, and a title in each language."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.changed_program import copy_program, replace_in, run_in_copy

MODULE = Path(__file__).with_name("added_action") / "disable_node.py"
CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "tools/proposals.py": (
        (
            "from tools.actions.edge_actions import",
            "from tools.actions.disable_node import DisableNodeAction\n"
            "from tools.actions.edge_actions import",
        ),
        ("    ImportFileAction,\n)", "    ImportFileAction,\n    DisableNodeAction,\n)"),
    ),
    "languages/en/texts.json": (
        ('"title_move"', '"title_disable": "disable “{name}”",\n    "title_move"'),
    ),
    "languages/fr/texts.json": (
        ('"title_move"', '"title_disable": "désactiver « {name} »",\n    "title_move"'),
    ),
}
"""All files that are changed, beside the new one."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    copy = copy_program(tmp_path_factory.mktemp("program"))
    shutil.copy(MODULE, copy / "tools" / "actions")
    for name, replaced in CHANGES.items():
        replace_in(copy / name, replaced)
    return run_in_copy(copy, "import tests.tools.added_action.run")


def test_an_action_is_added_by_one_module_and_three_changed_files(done: dict[str, Any]) -> None:
    assert len(CHANGES) + 1 <= 4
    assert "PROPOSED: disable node fetch-api" in done["proposed"]


def test_an_added_action_is_checked_and_its_problems_told(done: dict[str, Any]) -> None:
    assert done["refused"].startswith("ERROR not_found")
    assert "no node 'nothing'" in done["refused"]


def test_an_added_action_is_reviewed_titled_and_asked_for_by_its_classes(
    done: dict[str, Any],
) -> None:
    (title, french) = done["titles"]
    assert title.startswith("disable “")
    assert french.startswith("désactiver « ")
    assert done["batch"] == [title]
    assert "content" in done["asked"]


def test_an_added_action_is_applied_and_undone(done: dict[str, Any]) -> None:
    assert (done["status"], done["disabled"]) == ("applied", True)
    assert "disable “Fetch invoices”" in done["undo"]
    assert done["restored"] is True
    assert done["waits"] == "pending"
