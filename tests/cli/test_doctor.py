"""The `doctor` command."""

import json
import re
import threading
from pathlib import Path

from graphrag.app.diagnostics import examine
from graphrag.config import load_settings
from tests.cli.conftest import Env, invoke, printed
from tests.graphrag.llm.wire import openai_text, streamed
from tests.support.scripted_http import Answer, ScriptedServer


def findings(*flags: object) -> dict[str, dict[str, str]]:
    return {finding["name"]: finding for finding in printed(invoke("doctor", "--json", *flags))}


def test_a_good_installation_has_nothing_to_report(demo_db: str) -> None:
    invoke("doctor", exits=0)
    found = findings()
    assert {name: one for name, one in found.items() if one["status"] != "ok"} == {}
    assert found["workspace"]["detail"] == "'default' holds 3 graphs"
    assert {"python", "database", "embeddings", "tokenizer", "models"} <= set(found)


def test_vectors_of_a_model_that_is_not_asked_are_said_with_what_to_do(
    demo_db: str, env: Env
) -> None:
    invoke("embed-nodes", exits=0)
    assert findings()["vectors"]["detail"] == "49 nodes of wordllama-l2-256"
    with ScriptedServer() as server:
        env(
            NODIUS_EMBEDDINGS="openai",
            NODIUS_EMBEDDINGS_MODEL="another-model",
            NODIUS_EMBEDDINGS_BASE_URL=f"{server.url}/v1",
        )
        server.play(Answer(status=401, body={"error": {"message": "no such key"}}))
        found = findings()["vectors"]
    assert found["status"] == "warning"
    assert (
        "the settings choose another-model, but searches and new vectors stay of wordllama"
        in found["detail"]
    )
    assert "embed-nodes --force" in found["fix"]


def test_a_graph_of_another_language_is_named_with_the_model_that_knows_it(tmp_path: Path) -> None:
    db = ("--db", f"sqlite:{tmp_path / 'of.db'}")
    flow = tmp_path / "flow.json"
    flow.write_text(
        json.dumps(
            {
                "name": "Flow",
                "nodes": [{"name": "a", "type": "n8n-nodes-base.set", "position": [0, 0]}],
                "connections": {},
            }
        )
    )
    invoke("import", flow, *db, exits=0)
    assert findings(*db)["vectors"]["status"] == "ok"
    invoke("graphs", "new", "Mahnwesen", "--language", "de", *db, exits=0)
    found = findings(*db)["vectors"]
    assert found["status"] == "warning"
    assert found["detail"].endswith("Mahnwesen may be in another language")


def test_looking_makes_no_database(folder: Path) -> None:
    result = invoke("doctor", exits=0)
    assert "does not exist yet" in result.stdout
    assert "→ nodius demo, or nodius import FILE" in result.stdout
    assert list(folder.iterdir()) == []


def test_an_empty_workspace_says_how_to_fill_it(demo_db: str) -> None:
    found = findings("--workspace", "empty")
    assert found["workspace"]["status"] == "warning"
    assert "nodius import" in found["workspace"]["fix"]


def test_a_broken_database_fails_and_the_rest_is_still_examined(folder: Path) -> None:
    (folder / "text.db").write_text("this is no database at all\n" * 100)
    result = invoke("doctor", "--db", "sqlite:text.db", exits=1)
    assert "error   database: text.db is not a readable database" in result.stdout
    assert "ok      embeddings" in result.stdout


def test_a_wrong_address_is_reported(folder: Path) -> None:
    invoke("doctor", "--db", "foo:bar", exits=1)
    assert findings("--db", "foo:bar")["database"]["status"] == "error"


def test_embeddings_turned_off_or_refused_say_how_to_get_them(demo_db: str, env: Env) -> None:
    env(NODIUS_EMBEDDINGS="none")
    assert findings()["embeddings"]["status"] == "warning"
    env(NODIUS_EMBEDDINGS="openai")
    with ScriptedServer() as server:
        env(NODIUS_EMBEDDINGS_BASE_URL=f"{server.url}/v1")
        server.play(Answer(status=401, body={"error": {"message": "who are you?"}}))
        found = findings()["embeddings"]
    assert found["status"] == "error"
    assert "NODIUS_EMBEDDINGS=local" in found["fix"]


async def test_an_embedding_service_that_does_not_answer_is_not_waited_for() -> None:
    with ScriptedServer() as server:
        held = threading.Event()
        server.play(Answer(held=held))
        settings = load_settings(
            db="memory:", embeddings="openai", embeddings_base_url=f"{server.url}/v1"
        )
        found = {finding.name: finding for finding in await examine(settings, patience_s=0.2)}
        held.set()
    assert found["embeddings"].status == "error"
    assert "no answer within 0.2 s" in found["embeddings"].detail


def test_keys_are_named_and_never_shown(demo_db: str, env: Env) -> None:
    env(DEEPSEEK_API_KEY="sk-very-secret")
    output = invoke("doctor").output + invoke("doctor", "--json").output
    assert "deepseek, model 'deepseek-flash' at https://api.deepseek.com/v1" in output
    assert "very-secret" not in output


def test_a_local_model_is_named_with_its_address_and_window(demo_db: str, env: Env) -> None:
    with ScriptedServer(scripts_facts=True) as server:
        env(NODIUS_LLM_BASE_URL=f"{server.url}/v1", NODIUS_MODEL="qwen")
        served = {"data": [{"id": "qwen", "max_model_len": 4096}]}
        server.play(Answer(body=served))
        result = invoke("doctor")
        assert (
            f"compatible, model 'qwen' at {server.url}/v1, window 4,096 tokens, as it"
            in result.output
        )
        assert result.exit_code == 0
        env(NODIUS_MODEL="llama")
        server.play(Answer(body=served))
        result = invoke("doctor")
        assert "it serves no such model, but qwen" in result.output
        assert result.exit_code == 1


def test_a_model_server_that_is_not_there_is_an_error(demo_db: str, env: Env) -> None:
    env(NODIUS_LLM_BASE_URL="http://127.0.0.1:1/v1", NODIUS_MODEL="qwen")
    result = invoke("doctor")
    assert "error   models: compatible, model 'qwen' at http://127.0.0.1:1/v1: " in result.output
    assert "start the server" in result.output
    assert result.exit_code == 1


def test_asking_shows_what_the_model_says(demo_db: str, env: Env) -> None:
    with ScriptedServer() as server:
        env(
            NODIUS_LLM_BASE_URL=f"{server.url}/v1",
            NODIUS_MODEL="qwen",
            NODIUS_LLM_CONTEXT_WINDOW="4096",
        )
        server.play(streamed(openai_text("Blue.")), Answer(status=401, body={"error": "bad key"}))
        assert "it answers 'Blue.'" in invoke("doctor", "--ask").output
        invoke("doctor", "--ask", exits=1)


def test_asking_says_how_long_the_embedder_took(demo_db: str) -> None:
    assert re.search(
        r", 256 dimensions, .*; a text took [\d.]+ ms", findings("--ask")["embeddings"]["detail"]
    )
    assert " ms" not in findings()["embeddings"]["detail"]
