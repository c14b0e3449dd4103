"""The commands `ask`, `chat` and `threads`, with the answerer that needs no model, and
with a served one.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.turn_display import readable
from graphrag.i18n import Language, text
from graphrag.llm import sdk
from graphrag.retrieval.context import CONTEXT_MARKER
from tests.cli.conftest import Env, invoke, name_of, printed
from tests.graphrag.llm.wire import call_delta, delta, openai_text, sse, streamed
from tests.support.scripted_http import Answer, ScriptedServer

GRAPH = "testgraph001"
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.usefixtures("db")


@pytest.fixture
def server(env: Env) -> Generator[ScriptedServer]:
    """A local server of OpenAI's format that answers what is played."""
    with ScriptedServer() as served:
        env(
            NODIUS_PROVIDER="compatible",
            NODIUS_MODEL="some-model",
            NODIUS_LLM_BASE_URL=f"{served.url}/v1",
        )
        yield served


def typed(*lines: str, command: tuple[str, ...] = ("chat", GRAPH), **more: Any) -> Any:
    """Run a conversation in which a person types these lines."""
    return invoke(*command, typed="".join(f"{line}\n" for line in lines), **more)


def says(text: str) -> Answer:
    return streamed(openai_text(text))


def calls(name: str, **arguments: Any) -> Answer:
    return streamed(sse(call_delta(0, "c1", name, json.dumps(arguments)), delta("tool_calls")))


def rename(name: str) -> Answer:
    changes = {"data.name": name}
    return calls(
        "propose_update_node", nodeKey="fetch-api", changes=changes, reason="it is clearer"
    )


# ask


def test_a_question_is_answered_without_a_model_which_is_said() -> None:
    result = invoke("ask", GRAPH, "What happens after fetch-api?", exits=0)
    assert result.stdout.startswith("No language model is configured")
    assert "error-handler" in result.stdout
    assert "{{" not in result.stdout


def test_what_marks_nodes_that_an_answer_names_does_not_name_them_again() -> None:
    said = invoke(
        "ask", "testgraph001", "What happens when fetching the players fails?", exits=0
    ).stdout
    assert "Runs then (1): error-handler." in said
    assert "|" not in said
    assert readable("See {{highlight:a,b}} behind {{node:a}}.") == "See a,b behind a."


def test_a_change_is_shown_and_kept_pending_with_how_to_decide() -> None:
    result = invoke("ask", GRAPH, "rename fetch-api to Load players", exits=0)
    assert '+ data.name: "Load players"' in result.stdout
    assert "nodius review approve|reject ID" in result.stderr
    assert name_of("fetch-api") == "Fetch NBA players"
    waiting = printed(invoke("review", "list", "--json"))
    assert [approval["status"] for approval in waiting] == ["pending"]
    assert waiting[0]["id"] in result.stdout
    invoke("review", "approve", waiting[0]["id"], exits=0)
    assert name_of("fetch-api") == "Load players"


def test_a_script_gets_answer_tools_usage_and_proposals_as_json(server: ScriptedServer) -> None:
    server.play(
        calls("search_nodes", query="error"), says("See {{node:error-handler}} and {{node:ghost}}.")
    )
    answer = printed(invoke("ask", GRAPH, "Where are errors logged?", "--json"))
    assert answer["type"] == "message"
    assert answer["message"] == "See {{node:error-handler}} and ghost."
    assert [call["name"] for call in answer["toolCalls"]] == ["search_nodes"]
    assert answer["usage"]["promptTokens"] > 0
    server.play(rename("Load"))
    proposed = printed(invoke("ask", GRAPH, "rename it", "--json", "--thread", answer["threadId"]))
    assert (proposed["type"], proposed["threadId"]) == ("interrupt", answer["threadId"])
    assert proposed["approvals"][0]["preview"]["nodesChanged"][0]["key"] == "fetch-api"


def test_a_second_look_is_asked_for_first_counted_and_traced(
    server: ScriptedServer, env: Env
) -> None:
    server.play(says("Here."))
    once = printed(invoke("ask", GRAPH, "Where are errors logged?", "--json"))
    env(NODIUS_SECOND_LOOK="true")
    server.play(calls("assess", relevant=[5], missing=""), says("Here."))
    twice = printed(invoke("ask", GRAPH, "Where are errors logged?", "--json"))
    assert twice["message"] == "Here."
    assert twice["usage"]["promptTokens"] > once["usage"]["promptTokens"] + 100
    assert [
        request.json["tools"][0]["function"]["name"] == "assess" for request in server.requests
    ] == [
        False,
        True,
        False,
    ]
    traced = json.dumps(printed(invoke("trace", twice["threadId"], "--json")))
    assert traced.count('"operation": "chat"') == 2
    assert "assessed" in traced


def test_a_viewer_can_propose_nothing() -> None:
    invoke("ask", GRAPH, "delete node fetch-api", "--role", "viewer", exits=0)
    invoke("review", "list", exits=3)


def test_a_model_that_is_still_loading_is_waited_for_which_is_said_once(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "SDK_TIMEOUTS", replace(sdk.SDK_TIMEOUTS, loading_pause_s=0.001))
    loading = Answer(status=503, body={"error": {"code": 503, "message": "Loading model"}})
    server.play(*[loading] * 6, says("Hello"))
    result = invoke("ask", GRAPH, "Who logs?", exits=0)
    assert (result.stdout + result.stderr).count("The server is loading the model") == 1
    assert result.stdout.strip().endswith("Hello")


def test_a_failing_model_ends_with_1_and_the_reason(server: ScriptedServer) -> None:
    server.play(Answer(status=401, body={"error": {"message": "bad key"}}))
    assert "The key is not accepted" in invoke("ask", GRAPH, "anything", exits=1).stderr
    server.play(Answer(status=401, body={"error": {"message": "bad key"}}))
    document = invoke("ask", GRAPH, "anything", "--json", exits=1)
    assert printed(document)["error"]["code"] == "auth_error"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("no-such-graph", "q"), 3, "no graph"),
        ((GRAPH, "  "), 2, "the question is empty"),
        ((GRAPH, "q", "--role", "king"), 2, "'viewer', 'editor', 'reviewer', 'admin'"),
        ((GRAPH, "q", "--thread", "nope"), 3, "no conversation"),
        ((GRAPH, "q", "--provider", "nobody"), 2, "must be auto or one of"),
        ((GRAPH, "q", "--provider", "anthropic"), 2, "give the provider's key"),
    ],
)
def test_wrong_use_of_ask_says_what_is_wrong(
    arguments: tuple[str, ...], code: int, reason: str
) -> None:
    assert reason in invoke("ask", *arguments, exits=code).stderr


def test_more_rounds_than_allowed_end_in_an_answer_without_tools(server: ScriptedServer) -> None:
    server.play(
        *(calls("search_nodes", query=f"error {i}") for i in range(6)), says("That is all.")
    )
    assert invoke("ask", GRAPH, "search on", exits=0).stdout.strip() == "That is all."
    assert server.requests[-1].json["tool_choice"] == "none"


@pytest.mark.parametrize(
    "question", ["Describe this graph", "Décris ce graphe", "Where do errors go?"]
)
@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_prompt_and_context_show_what_a_model_is_sent(
    server: ScriptedServer, question: str, role: str
) -> None:
    server.play(says("so"))
    invoke("ask", GRAPH, question, "--role", role, exits=0)
    sent = "\n\n".join(message["content"] for message in server.requests[0].json["messages"])
    shown = printed(invoke("prompt", GRAPH, question, "--role", role, "--json"))
    assert sent == "\n\n".join(message["content"] for message in shown["messages"])
    context = printed(invoke("context", GRAPH, question, "--role", role, "--json"))
    assert f"\n\n{CONTEXT_MARKER}\n{context['text']}\n\n" in sent
    assert context["outline"] == ("THE WHOLE GRAPH" in sent)
    assert context["whole"] == ("ALL NODES" in sent)


def test_a_question_that_words_alone_were_searched_for_says_so(
    server: ScriptedServer, env: Env
) -> None:
    invoke("embed-nodes", exits=0)
    with ScriptedServer() as embedding:
        env(
            NODIUS_EMBEDDINGS="openai",
            NODIUS_EMBEDDINGS_MODEL="wordllama-l2-256",
            NODIUS_EMBEDDINGS_BASE_URL=f"{embedding.url}/v1",
        )
        embedding.play(*(Answer(status=400, body={"error": {"message": "away"}}) for _ in range(2)))
        server.play(says("Found."), says("Trouvé."))
        languages: tuple[Language, ...] = ("en", "fr")
        for language in languages:
            result = invoke("ask", GRAPH, "Where do errors go?", "--lang", language, exits=0)
            assert text("words_only", language) in " ".join(result.stderr.split())


# chat


def test_a_change_is_approved_in_conversation_and_the_model_informed(
    server: ScriptedServer,
) -> None:
    server.play(rename("Load players"), says("Renamed."))
    result = typed("rename it", "a", "/exit", exits=0)
    assert '+ data.name: "Load players"' in result.stdout
    assert "Renamed." in result.stdout
    assert name_of("fetch-api") == "Load players"
    assert "--thread" in result.stderr
    sent = server.requests[-1].json["messages"]
    assert any(
        message["role"] == "tool" and message["content"].startswith("APPLIED") for message in sent
    )


def test_a_change_is_rejected_with_the_reason_that_the_model_gets(server: ScriptedServer) -> None:
    server.play(rename("Load players"), says("Kept."))
    typed("rename it", "r", "the old one is fine", exits=0)
    assert name_of("fetch-api") == "Fetch NBA players"
    sent = server.requests[-1].json["messages"]
    assert any(m["role"] == "tool" and "the old one is fine" in m["content"] for m in sent)


def test_a_change_is_edited_in_the_persons_editor(
    server: ScriptedServer, folder: Path, env: Env
) -> None:
    editor = folder / "editor.py"
    editor.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "file.write_text(file.read_text().replace('Load players', 'Read players'))\n"
    )
    env(VISUAL=f"{sys.executable} {editor}")
    server.play(rename("Load players"), says("As you edited it."))
    typed("rename it", "e", exits=0)
    assert name_of("fetch-api") == "Read players"


def test_an_edit_that_is_no_action_is_said_and_asked_again(
    server: ScriptedServer, folder: Path, env: Env
) -> None:
    editor = folder / "editor.py"
    editor.write_text(
        'import pathlib, sys\npathlib.Path(sys.argv[1]).write_text(\'{"type": "nothing"}\')\n'
    )
    env(VISUAL=f"{sys.executable} {editor}")
    server.play(rename("Load players"))
    result = typed("rename it", "e", "x", "l", exits=0)
    assert "the action's" in result.stderr
    assert "one of a, e, r, l" in result.stderr
    assert name_of("fetch-api") == "Fetch NBA players"


def test_what_is_left_for_later_waits_in_the_thread(server: ScriptedServer) -> None:
    server.play(rename("Load players"))
    typed("rename it", "l", exits=0)
    thread = printed(invoke("threads", "list", "--json"))[0]["threadId"]
    server.play(says("Done at last."))
    assert (
        "Done at last." in typed("a", command=("chat", GRAPH, "--thread", thread), exits=0).stdout
    )
    assert name_of("fetch-api") == "Load players"


def test_a_decision_that_was_made_elsewhere_is_said_and_the_turn_goes_on(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(rename("Load players"))
    typed("rename it", "l")
    approval = printed(invoke("review", "list", "--json"))[0]
    invoke("review", "reject", approval["id"], "--feedback", "no", exits=0)
    server.play(says("It was rejected."))
    result = typed("/later", command=("chat", GRAPH, "--thread", approval["threadId"]), exits=0)
    assert "It was rejected." in result.stdout
    assert "Nothing waits here." in result.stderr


def test_more_rounds_are_granted_in_conversation(server: ScriptedServer) -> None:
    server.play(*(calls("search_nodes", query=f"error {i}") for i in range(6)), says("Found."))
    result = typed("search on", "y", exits=0)
    assert "Grant 5 more?" in result.stdout
    assert "Found." in result.stdout


def test_a_failed_turn_is_tried_again(server: ScriptedServer) -> None:
    broken = streamed(sse(delta(content="Hel"), done=False), fault="truncate")
    server.play(broken, says("Hello."))
    result = typed("hello", "/retry")
    assert "/retry tries it again" in result.stderr
    assert "Hello." in result.stdout


def test_a_question_is_asked_in_conversation_and_left_for_later(server: ScriptedServer) -> None:
    question = {"question": "Which \x1b[31mcheck?", "options": ["Amount", "Date"], "other": True}
    server.play(calls("ask_person", type="MultipleChoice", data=question), says("Date it is."))
    later = typed("tidy up", "")
    assert "1 Amount" in later.output
    assert "\x1b[31m" not in later.output
    assert "Left to be answered" in later.output
    thread = later.output.rpartition("--thread ")[2].split()[0]
    assert "Date it is." in typed("2", command=("chat", GRAPH, "--thread", thread)).output
    assert "The person answered: Date" in str(server.requests[-1].json)


def test_yes_or_no_is_asked_until_it_is_one_of_them(server: ScriptedServer) -> None:
    server.play(
        calls("ask_person", type="Validation", data={"message": "All?"}), says("None, then.")
    )
    assert "None, then." in typed("tidy up", "perhaps", "n").output
    assert "The person answered: no" in str(server.requests[-1].json)


def test_a_question_is_never_asked_where_nobody_is_at_the_terminal(server: ScriptedServer) -> None:
    server.play(says("Fine."))
    invoke("ask", GRAPH, "tidy up", exits=0)
    assert "ask_person" not in str(server.requests[-1].json["tools"])


def test_commands_of_a_conversation_are_listed_and_unknown_ones_said() -> None:
    result = typed("", "/help", "/later", "/dance", "/exit", exits=0)
    for part in ("/retry", "no conversation yet", "there is no command /dance"):
        assert part in result.stderr


@pytest.mark.slow
def test_ctrl_c_stops_a_turn_and_the_conversation_goes_on(server: ScriptedServer, db: Path) -> None:
    gone = threading.Event()
    begun = sse(delta(content="A long answer"), done=False)
    server.play(streamed(begun, fault="hang", gone=gone), says("Second answer."))
    command = [sys.executable, "-c", "from cli.main import run; run()", "chat", GRAPH]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1"}, text=True, bufsize=1,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        process.stdin.write("first\n")
        process.stdin.flush()
        seen = b""
        while b"A long answer" not in seen:
            ready, _, _ = select.select([process.stdout], [], [], 30)
            assert ready, seen
            seen += os.read(process.stdout.fileno(), 1_000)
        process.send_signal(signal.SIGINT)
        assert gone.wait(30), "the request to the model was not closed"
        rest, errors = process.communicate("second\n", timeout=60)
    finally:
        process.kill()
    assert "Second answer." in rest
    assert "Stopped." in errors
    assert process.returncode == 0


# threads


def test_conversations_are_listed_shown_and_deleted() -> None:
    invoke("threads", "list", exits=3)
    invoke("ask", GRAPH, "Describe this graph")
    listed = printed(invoke("threads", "list", "--json"))
    assert [thread["title"] for thread in listed] == ["Describe this graph"]
    thread_id = listed[0]["threadId"]
    assert thread_id in invoke("threads", "list", "--graph", GRAPH).stdout
    shown = invoke("threads", "show", thread_id)
    assert "> Describe this graph" in shown.stdout
    assert "No language model is configured" in shown.stdout
    history = printed(invoke("threads", "show", thread_id, "--json"))["conversationHistory"]
    assert {message["role"] for message in history} >= {"system", "user", "assistant"}
    assert printed(invoke("threads", "delete", thread_id, "--json")) == {"success": True}
    invoke("threads", "show", thread_id, exits=3)
    invoke("threads", "delete", thread_id, exits=3)


def test_what_a_tool_returned_is_shown_by_its_first_entries_or_whole(
    server: ScriptedServer,
) -> None:
    server.play(calls("explore_neighborhood", key="fetch-api", maxDepth=3), says("All of it."))
    invoke("ask", GRAPH, "What is near?")
    thread_id = printed(invoke("threads", "list", "--json"))[0]["threadId"]
    short, whole = (invoke("threads", "show", thread_id, *more).stdout for more in ([], ["--full"]))
    assert "more (--full shows them)" in short
    assert "more (--full" not in whole
    left_out = [line for line in whole.splitlines() if line not in short]
    assert len(left_out) == int(re.search(r"… (\d+) more", short)[1])  # type: ignore[index]
