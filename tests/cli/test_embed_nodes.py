"""The `embed-nodes` command."""

from pathlib import Path

import pytest

from tests.cli.conftest import Env, invoke, n8n, printed, write
from tests.support.scripted_http import Answer, ScriptedServer


@pytest.fixture(autouse=True)
def graphs(folder: Path) -> None:
    for key in ("one", "two"):
        invoke(
            "import",
            write(folder / f"{key}.json", n8n("Read orders", "Send invoice")),
            "--graph",
            key,
            "--no-embed",
        )


def counts(*flags: object) -> tuple[int, int]:
    report = printed(invoke("embed-nodes", "--json", *flags))
    return report["embedded"], report["skipped"]


def test_only_what_is_missing_or_changed_is_embedded(folder: Path) -> None:
    assert counts() == (4, 0)
    assert counts() == (0, 4)
    invoke(
        "import",
        write(folder / "one.json", n8n("Read orders", "Send reminder")),
        "--graph",
        "one",
        "--no-embed",
    )
    assert counts() == (1, 3)
    assert counts("--force") == (4, 0)


def test_one_graph_can_be_embedded_alone() -> None:
    assert counts("--graph", "one") == (2, 0)
    assert counts("--graph", "one", "--graph", "two") == (2, 2)


def test_a_dry_run_counts_and_stores_nothing() -> None:
    assert "4 to embed, 0 up to date" in invoke("embed-nodes", "--dry-run").stdout
    assert [row["embedded"] for row in printed(invoke("graphs", "--json"))] == [0, 0]
    invoke("embed-nodes")
    assert [row["embedded"] for row in printed(invoke("graphs", "--json"))] == [2, 2]


def test_an_unknown_graph_stops_before_anything_is_done() -> None:
    result = invoke("embed-nodes", "--graph", "one", "--graph", "tow", exits=3)
    assert "did you mean two?" in result.stderr
    assert [row["embedded"] for row in printed(invoke("graphs", "--json"))] == [0, 0]


def test_embeddings_turned_off_are_said(env: Env) -> None:
    env(NODIUS_EMBEDDINGS="none")
    assert "turned off" in invoke("embed-nodes", exits=2).stderr


def test_a_service_that_refuses_the_key_is_said(env: Env) -> None:
    env(NODIUS_EMBEDDINGS="openai")
    with ScriptedServer() as server:
        env(NODIUS_EMBEDDINGS_BASE_URL=f"{server.url}/v1")
        server.play(Answer(status=401, body={"error": {"message": "who are you?"}}))
        result = invoke("embed-nodes")
    assert result.exit_code == 1
    assert "OPENAI_API_KEY" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("flags", [["--batch", "0"], ["--batch", "9999"], ["--delay-ms", "-1"]])
def test_senseless_numbers_are_wrong_use(flags: list[str]) -> None:
    assert f"Invalid value for '{flags[0]}'" in invoke("embed-nodes", *flags, exits=2).stderr


def test_all_workspaces_can_be_embedded_and_an_empty_one_says_where_graphs_are(
    folder: Path,
) -> None:
    file = write(folder / "three.json", n8n("Read orders"))
    invoke("import", file, "--workspace", "other", "--graph", "three", "--no-embed")
    result = invoke("embed-nodes", "--workspace", "nobody", exits=0)
    assert "default, other has: --workspace NAME or --all-workspaces" in result.stderr
    assert counts("--all-workspaces") == (5, 0)
    assert counts("--workspace", "other") == (0, 1)
    invoke("embed-nodes", "--all-workspaces", "--workspace", "other", exits=2)


def test_a_model_that_does_not_search_adopts_nothing(folder: Path) -> None:
    result = invoke("embed-nodes", "--adopt", "text-embedding-3-small", exits=2)
    assert "NODIUS_EMBEDDINGS_MODEL=text-embedding-3-small" in result.stderr


def test_what_force_costs_is_said_beforehand() -> None:
    assert "about" in invoke("embed-nodes", "--force").stderr
    assert "4 to embed" in invoke("embed-nodes", "--force", "--dry-run").stdout
