"""The start of the program: what a command imports, and where its options may stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command_table import COMMANDS
from cli.main import load, options_behind_command
from tests.cli.conftest import invoke, printed

ROOT = Path(__file__).parents[2]
ROOMS = {"cli", "datasources", "graphrag", "languages", "mock_data", "server", "tools"}
SDKS = {"openai", "anthropic", "mcp", "ag_ui", "fastapi", "starlette", "uvicorn", "websockets"}
HEAVY = {
    "scipy",
    "networkx",
    "tantivy",
    "tokenizers",
    "tiktoken",
    "arango",
    "tree_sitter",
    "genai_prices",
}


def imported_by(*arguments: str) -> set[str]:
    """Run the program and return every module that it imported."""
    program = [sys.executable, "-X", "importtime", "-m", "nodius_graphrag", *arguments]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(
        re.findall(r"^import time:\s+\d+ \|\s+\d+ \|\s+([\w.]+)$", done.stderr, re.MULTILINE)
    )


def test_help_imports_no_command_and_no_library_of_the_service() -> None:
    names = imported_by("--help")
    assert {name for name in names if name.split(".")[0] in ROOMS} == {
        "cli", "cli.main", "cli.command_table", "graphrag", "graphrag.workers",
    }  # fmt: skip
    assert not names & (SDKS | HEAVY | {"pydantic", "numpy", "rich"})


def test_listing_graphs_imports_the_database_and_no_library_of_servers_or_models() -> None:
    names = imported_by("graphs", "--db", "memory:")
    assert not names & (SDKS | HEAVY)
    assert "graphrag.app.wiring" not in names
    own = {name for name in names if name.split(".")[0] in ROOMS}
    assert len(own) <= 85, sorted(own)


def test_the_table_has_the_help_of_every_command() -> None:
    for name, place in COMMANDS.items():
        first, _, _ = load(name).help.partition("\n\n")
        assert place.help == " ".join(first.split()), name


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("--db URL graphs", "graphs --db URL"),
        ("--db=URL --json graphs list", "graphs list --db=URL --json"),
        ("graphs --db URL list --limit 3", "graphs list --db URL --limit 3"),
        ("-w NAME graphs --lang fr show KEY --json", "graphs show -w NAME --lang fr KEY --json"),
        ("ask --db URL graphs list", "ask --db URL graphs list"),
        ("--json search graphs", "search --json graphs"),
        ("--version", "--version"),
        ("--db URL --help", "--help"),
        ("--db", ""),
    ],
)
def test_shared_options_before_a_command_are_read_as_options_of_the_command(
    typed: str, read: str
) -> None:
    assert " ".join(options_behind_command(typed.split())) == read


def test_options_before_a_command_mean_the_same_as_after_it(demo_db: str, tmp_path: Path) -> None:
    listed = printed(invoke("graphs", "--json", "--db", demo_db, exits=0))
    other = f"sqlite:{tmp_path / 'absent.db'}"
    assert printed(invoke("--db", demo_db, "--json", "graphs", exits=0)) == listed
    assert printed(invoke("graphs", "--db", demo_db, "list", "--json", exits=0)) == listed
    assert printed(invoke("--db", other, "graphs", "--db", demo_db, "--json", exits=0)) == listed
    assert other in invoke("--db", other, "graphs", exits=3).stderr
    assert "elsewhere" in invoke("--workspace", "elsewhere", "graphs", "list", exits=3).stderr
    french = invoke("--lang", "fr", "context", "order-refund", "refund", exits=0)
    assert (
        french.stdout == invoke("context", "order-refund", "refund", "--lang", "fr", exits=0).stdout
    )


def test_an_option_that_a_command_does_not_have_is_refused_by_that_command() -> None:
    refused = invoke("--json", "serve", exits=2).stderr
    assert "nodius serve" in refused
    assert "--json" in refused
    assert "'graphs'" in invoke("--json", "graphz", exits=2).stderr


@pytest.mark.parametrize("name", ["graphs", "db"])
def test_a_group_says_what_is_in_it(name: str) -> None:
    assert set(load(name).commands) <= set(invoke(name, "--help", exits=0).stdout.split())
