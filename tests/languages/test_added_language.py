"""A language is one folder and one line: what is asked and proposed in it comes from there."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.support.changed_program import ROOT, copy_program, replace_in, run_in_copy

LINE = 'Language = Literal["en", "fr"]'
CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "texts.json": (('"title_delete": "', '"title_delete": "forigo: '),),
    "prompts/system.md": (("You are the assistant", "Vi estas la asistanto"), ("Rules", "Reguloj")),
    "prompts/context.md": (("ALL NODES", "CHIUJ NODOJ"),),
    "rules.toml": (
        ("^You are the assistant|# Rules$", "^Vi estas la asistanto|# Reguloj$"),
        ("delete = '(delete|", "delete = '(forigu|delete|"),
        ('notice = "', 'notice = "[eo] '),
        ("common_list = '''", "common_list = '''kio okazas kiam "),
        ("describe_graph: ", "describe_graph: kio okazas tie chi\ndescribe_graph: "),
    ),
    "words.toml": (
        ("verbs = '''\n", "verbs = '''\nforig|"),
        ("graph = 'graph ", "graph = 'grafeo graph "),
    ),
}
"""What the added language says otherwise than English, of which it is a copy."""


COMMANDS = {
    "import": ("import", str(ROOT / "mock_data" / "nba.json"), "--no-embed"),
    "question": ("ask", "testgraph001", "kio okazas tie chi?"),
    "prompt": ("prompt", "testgraph001", "kio okazas?"),
    "change": ("ask", "testgraph001", "forigu filter-active"),
    "review": ("review", "list"),
}
RUN = """
import json, sys
from typer.testing import CliRunner
from cli.main import app
commands = json.loads(sys.argv[1]).items()
done = {name: CliRunner().invoke(app, [*words, "--lang", "eo"]) for name, words in commands}
print(json.dumps({name: [one.exit_code, one.output] for name, one in done.items()}))
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the outputs of commands of a copy of the program that has one language more."""
    copy = copy_program(tmp_path_factory.mktemp("program"))
    folder = copy / "languages" / "eo"
    shutil.copytree(copy / "languages" / "en", folder)
    for name, replaced in CHANGES.items():
        replace_in(folder / name, replaced)
    replace_in(copy / "languages" / "__init__.py", [(LINE, LINE.replace("]", ', "eo"]'))])
    done = run_in_copy(copy, RUN, json.dumps(COMMANDS))
    assert [name for name, (code, _) in done.items() if code] == [], done
    return {name: output for name, (_, output) in done.items()}


def test_a_question_is_understood_and_answered_in_an_added_language(
    outputs: dict[str, str],
) -> None:
    assert "[eo] No language model is configured" in outputs["question"]
    assert "NBA Stats Pipeline" in outputs["question"]
    assert "Vi estas la asistanto" in outputs["prompt"]
    assert "CHIUJ NODOJ" in outputs["prompt"]


def test_a_change_is_proposed_and_titled_in_an_added_language(outputs: dict[str, str]) -> None:
    assert "forigo: " in outputs["change"]
    assert "forigo: " in outputs["review"]
