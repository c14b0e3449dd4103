"""The commands `connect`, `connections`, `sync` and `disconnect`."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Env, invoke, printed
from tests.graphrag.connections.conftest import workflow
from tests.support.in_thread import in_thread
from tests.support.workflow_servers import N8N_KEY, WRITE_SCOPES, N8nDouble, n8n_double


@contextmanager
def a_server() -> Generator[N8nDouble]:
    """Runs a double of n8n beside this thread, which a command blocks."""
    with in_thread(n8n_double()) as (double, _):
        yield double


@pytest.fixture
def n8n() -> Generator[N8nDouble]:
    with a_server() as double:
        yield double


def test_a_server_is_connected_read_listed_and_left(folder: Path, n8n: N8nDouble, env: Env) -> None:
    env(SHOP_KEY=N8N_KEY, NODIUS_EMBEDDINGS="none")
    n8n.put(workflow("Order", "Check"))
    connect = ("connect", "n8n", n8n.address, "--name", "shop", "--key-env", "SHOP_KEY")
    refused = invoke(*connect, exits=1)
    assert "--private" in refused.stderr
    result = invoke(*connect, "--private", exits=0)
    assert "Order: created → graph order" in result.stdout
    (row,) = printed(invoke("connections", "--json"))
    assert row["workflows"][0]["state"] == "in step"
    assert N8N_KEY not in str(row)
    (report,) = printed(invoke("sync", "--json"))
    assert [each["change"] for each in report["workflows"]] == ["unchanged"]
    invoke("graphs", "rename", "order", "Orders", exits=0)
    (row,) = printed(invoke("connections", "--json"))
    assert row["workflows"][0]["state"] == "changed here"
    invoke("disconnect", "shop", exits=0)
    assert "No connection yet" in invoke("connections", exits=3).stderr
    assert len(printed(invoke("graphs", "--json"))) == 1


def test_one_server_that_is_away_does_not_keep_another_from_being_read(
    folder: Path, n8n: N8nDouble, env: Env
) -> None:
    env(SHOP_KEY=N8N_KEY, NODIUS_EMBEDDINGS="none")
    options = ("--key-env", "SHOP_KEY", "--private")
    with a_server() as away:
        invoke("connect", "n8n", away.address, "--name", "away", *options, exits=0)
    invoke("connect", "n8n", n8n.address, "--name", "shop", *options, exits=0)
    n8n.put(workflow("Order", "Check"))
    result = invoke("sync", "--json", exits=1)
    documents = {each["name"]: each for each in printed(result)}
    assert "error" in documents["away"]
    assert [each["change"] for each in documents["shop"]["workflows"]] == ["created"]
    assert "Nothing answers" in result.stderr


def test_doctor_checks_each_connection(folder: Path, n8n: N8nDouble, env: Env) -> None:
    env(SHOP_KEY=N8N_KEY, NODIUS_EMBEDDINGS="none")
    n8n.put(workflow("Order", "Check"))
    options = ("--key-env", "SHOP_KEY", "--private")
    with a_server() as away:
        invoke("connect", "n8n", away.address, "--name", "away", *options, exits=0)
    invoke("connect", "n8n", n8n.address, "--name", "shop", *options, exits=0)

    def found(name: str) -> tuple[str, str]:
        findings = {each["name"]: each for each in printed(invoke("doctor", "--json", exits=None))}
        return findings[f"connection {name}"]["status"], findings[f"connection {name}"]["detail"]

    assert found("shop")[0] == "ok"
    assert found("away") == ("error", f"Nothing answers at {away.address}; check the address, and "
                             "that the server runs.")  # fmt: skip
    n8n.scopes = ("workflow:list",)
    status, detail = found("shop")
    assert (status, detail.endswith("the key lacks workflow:read")) == ("warning", True)
    env(SHOP_KEY="another-key-0123456789")
    status, detail = found("shop")
    assert (status, "refused the key" in detail) == ("error", True)
    assert "another-key" not in detail


def test_a_sync_without_a_connection_says_how_to_make_one(folder: Path) -> None:
    assert "nodius connect" in invoke("sync", exits=2).stderr
    assert "Not found" in invoke("sync", "shop", exits=3).stderr
    assert "Not found" in invoke("disconnect", "shop", exits=3).stderr


def test_what_was_changed_here_is_shown_confirmed_written_and_listed(
    folder: Path, n8n: N8nDouble, env: Env
) -> None:
    env(SHOP_KEY=N8N_KEY, NODIUS_EMBEDDINGS="none", NODIUS_AUTH_SECRET="s" * 40)
    n8n.scopes = WRITE_SCOPES
    workflow_id = n8n.put(workflow("Order", "Check", limit=1))
    options = ("--name", "shop", "--key-env", "SHOP_KEY", "--private")
    invoke("connect", "n8n", n8n.address, *options, exits=0)
    assert "only reads" in invoke("push", "shop", "order", exits=1).stderr
    invoke("connect", "n8n", n8n.address, *options, "--push", "ask", exits=0)
    assert "nothing was changed here" in invoke("push", "shop", exits=0).stdout
    invoke("graphs", "rename", "order", "Orders", exits=0)
    waiting = invoke("push", "shop", exits=0).stdout
    assert "+ Orders" in waiting
    assert "nodius pushes approve" in waiting
    (push,) = printed(invoke("push", "shop", "--yes", "--json"))
    assert (push["state"], push["canBeUndone"]) == ("verified", True)
    assert "sealedDocuments" not in push
    assert n8n.workflows[workflow_id]["name"] == "Orders"
    states = [row["state"] for row in printed(invoke("pushes", "--json"))]
    assert states == ["verified", "failed"]  # the newer one replaced the one that waited
    assert "Orders" in invoke("pushes", "show", push["id"], exits=0).stdout
    invoke("pushes", "undo", push["id"], "--yes", exits=0)
    assert n8n.workflows[workflow_id]["name"] == "Order"


def test_a_graph_is_made_a_workflow_there(folder: Path, n8n: N8nDouble, env: Env) -> None:
    env(SHOP_KEY=N8N_KEY, NODIUS_EMBEDDINGS="none")
    n8n.scopes = (*WRITE_SCOPES, "workflow:create")
    (folder / "return.json").write_text(json.dumps(workflow("Return", "Check")))
    invoke("import", "return.json", exits=0)
    options = ("--name", "shop", "--key-env", "SHOP_KEY", "--private", "--push", "ask")
    invoke("connect", "n8n", n8n.address, *options, exits=0)
    assert "name the graph" in invoke("push", "shop", "--create", exits=2).stderr
    (push,) = printed(invoke("push", "shop", "return", "--create", "--yes", "--json"))
    assert (push["action"], push["state"]) == ("create", "verified")
    assert [each["name"] for each in n8n.workflows.values()] == ["Return"]
    assert "1 in step" in invoke("connections", exits=0).stdout


def test_a_value_that_is_no_choice_is_refused_in_plain_words(folder: Path) -> None:
    told = invoke("connect", "n8n", "http://n8n.example", "--push", "maybe", exits=2).stderr
    assert "Invalid value for '--push': 'maybe' is not one of 'never', 'ask', 'approval'" in told
