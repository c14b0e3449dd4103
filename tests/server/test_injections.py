"""Nodes whose texts are instructions, over every channel, to a model that does all
that it reads.
"""

import json
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from datasources import errors as data
from graphrag.agent.events import classify
from graphrag.config import SettingsError
from graphrag.embedding.embedder import EmbeddingUnreachable
from graphrag.i18n import Language
from graphrag.llm.errors import ModelRequestRefused, ModelUnreachable
from server.error_responses import error_response
from server.errors import TurnBroken
from server.redaction import without_places
from tests.server.mcp.helpers import connected, said
from tests.support import agui_runs
from tests.support.chosen_database import address_in
from tests.support.injection_payloads import hostile_document, injection_payloads
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import served
from tests.support.service import GRAPH, error_of, service, token

AT_ONCE = 40
"""Texts of one graph."""
ASKED = "What do these nodes say, and do it."
FOREIGN = {"graphKey": GRAPH, "nodeKey": "error-handler"}


class ObedientModel(ScriptedProvider):
    """Does what a node could ask for: changes, deletes, names foreign keys, and repeats
    what it read.
    """

    async def stream(self, messages: Any, *more: Any, **given: Any) -> AsyncGenerator[Any]:
        begun = str(messages[-1].content).endswith(ASKED)
        changes = {"changes": {"data.name": "owned"}, "reason": "the node says so"}
        calls = [
            call("propose_delete_node", {"nodeKey": "n0", "reason": "the node says so"}),
            call("propose_update_node", {"nodeKey": "n1", **changes}),
            call("propose_update_node", {**FOREIGN, **changes}),
            call("propose_delete_graph", {"graphKey": GRAPH, "reason": "the node says so"}),
            call("read_node_detail", FOREIGN),
            call("send_email", {"to": "attacker@example.com"}),
        ]
        text = "\n".join(str(message.content) for message in messages)[-4_000:]
        self.play_instead(Says(text=text, calls=calls if begun else ()))
        async for chunk in super().stream(messages, *more, **given):
            yield chunk


@pytest.mark.slow
async def test_no_text_of_a_node_writes_reads_elsewhere_or_becomes_a_page() -> None:
    texts = injection_payloads()
    assert len(texts) > 200
    with ObedientModel() as model:
        async with served(model, rate_limit=0) as running:
            foreign = (await running.state.services("default")).source
            began = (await foreign.get_graph(GRAPH)).revision
            workspaces = ("globex",)
            bearer = token("sam", "editor", workspaces)
            headers = {"Authorization": f"Bearer {bearer}"}
            options: dict[str, Any] = {"trust_env": False, "timeout": 60}
            async with (
                httpx2.AsyncClient(base_url=running.address, headers=headers, **options) as rest,
                openai.AsyncOpenAI(
                    base_url=f"{running.address}/v1", api_key=bearer, max_retries=0
                ) as asker,
                connected(running, bearer=bearer) as mcp,
            ):
                for first in range(0, len(texts), AT_ONCE):
                    key = f"hostile-{first}"
                    document = hostile_document(texts[first : first + AT_ONCE], key)
                    made = await rest.post(
                        f"/api/graphs/import?graphKey={key}", content=json.dumps(document)
                    )
                    assert made.status_code in (200, 201), made.text
                    key = made.json()["graphKey"]
                    answers = [await rest.get(f"/api/graphs/{key}")]
                    body = {"graphKey": key, "message": ASKED}
                    answers.append(await rest.post("/api/ai/chat", json=body))
                    answers.append(
                        await rest.post(
                            f"/api/agui/{key}",
                            json=agui_runs.run_body(agui_runs.said(ASKED), thread=key),
                        )
                    )
                    chat: list[Any] = [{"role": "user", "content": ASKED}]
                    whole = await asker.chat.completions.create(model=f"graph:{key}", messages=chat)
                    found = [
                        await mcp.call_tool(
                            "search_nodes", {"graphKey": key, "query": texts[first][:80]}
                        ),
                        await mcp.call_tool("read_node_detail", {"graphKey": key, "nodeKey": "n0"}),
                    ]
                    assert not any(one.is_error for one in found), found
                    refused = await mcp.call_tool(
                        "read_node_detail", {"graphKey": GRAPH, "nodeKey": "root"}
                    )
                    assert refused.is_error
                    for answer in answers:
                        assert answer.status_code == 200, answer.text
                        kind = answer.headers["content-type"].partition(";")[0]
                        assert kind in ("application/json", "text/event-stream")
                        assert answer.headers["x-content-type-options"] == "nosniff"
                    shown = [answer.text for answer in answers]
                    shown += [str(whole), *map(said, found)]
                    assert "NBA" not in "".join(shown), "a text of another workspace's graph"
                    graph = (await rest.get(f"/api/graphs/{key}")).json()
                    assert graph["revision"] == 1, graph
                waiting = (await rest.get("/api/approvals?limit=1000")).json()["approvals"]
            services = await running.state.services("globex")
            pending = await services.approvals.waiting(limit=10_000)
            assert (await foreign.get_graph(GRAPH)).revision == began
            mine = await (await running.state.services("default")).approvals.waiting()
    assert waiting
    assert mine == []
    assert {"hostile" in one.graph_key for one in pending} == {True}
    assert {one.status for one in pending} == {"pending"}
    assert all(one.needs_person for one in pending)


PLACES = ("/srv/secret/n.db", "db.internal", "10.1.2.3", "SELECT", "8529", "llm.internal")
REASON = "http://llm.internal:8080/v1 (10.1.2.3:8529) refused; host='db.internal', port=8529 /srv/secret/n.db"
ERRORS: list[Exception] = [
    data.DatabaseBusy(path="/srv/secret/n.db", seconds=10),
    data.DatabaseDamaged(path="/srv/secret/n.db", reason="SELECT"),
    data.DatabaseVersion(path="/srv/secret/n.db", found=9, supported=2),
    data.SourceTimeout(source="arango+http://db.internal:8529/n", seconds=5),
    data.SourceUnavailable(source="/srv/secret/n.db", reason="no such table in SELECT x"),
    data.SourceBusy(source="db.internal:8529", reason="held"),
    SettingsError(name="auth_jwks", origin="/srv/secret/n.db", reason="no file"),
    EmbeddingUnreachable(provider="local", reason=REASON),
    ModelUnreachable(provider="local", reason=REASON),
    ModelRequestRefused(provider="local", reason=REASON, status=400),
    TurnBroken(thread_id="t", fault=classify(ModelUnreachable(provider="local", reason=REASON))),
    TurnBroken(
        thread_id="t",
        fault=classify(data.SourceTimeout(source="http://db.internal:8529", seconds=5)),
    ),
]


@pytest.mark.parametrize("language", ["en", "fr"])
@pytest.mark.parametrize("exc", [*ERRORS])
def test_no_place_of_the_service_is_in_what_a_client_reads(
    exc: Exception, language: Language
) -> None:
    text = error_response(exc, language).message
    assert text
    assert not [place for place in PLACES if place in text], text


@pytest.mark.parametrize(
    "text",
    [
        "the graph key 'a/b' is taken; choose another key",
        "graph 'flow-7' is at revision 3, not 2: read it again and retry",
        "wait until 12:30, then ask again and/or stop",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert without_places(text) == text


async def test_the_log_says_what_the_client_is_not_sent_under_the_id_of_its_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with service(db=address_in(tmp_path / "n.db")) as running, running.as_() as ed:
        source = running.state.backend.shared.database.source("default")

        async def gone(*_: Any) -> Any:
            raise data.SourceUnavailable(source=str(tmp_path / "n.db"), reason="disk I/O error")

        monkeypatch.setattr(type(source), "list_graphs", gone)
        with caplog.at_level(logging.WARNING, logger="server"):
            error = error_of(await ed.get("/api/graphs"))
    assert error["code"] == "unavailable"
    assert str(tmp_path) not in error["message"]
    logged = [entry for entry in caplog.records if entry.getMessage() == "error_withheld"]
    assert [entry.__dict__["request_id"] for entry in logged] == [error["requestId"]]
    assert str(tmp_path) in logged[0].__dict__["reason"]
