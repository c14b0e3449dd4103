"""What a client reads of an error names no path, host or statement; the log does, under the request's id."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from datasources import errors as data
from graphrag.agent.events import classify
from graphrag.config import SettingsError
from graphrag.embedding.embedder import EmbeddingUnreachable
from graphrag.i18n import Language
from graphrag.llm.errors import ModelRequestRefused, ModelUnreachable
from server.error_responses import error_response, without_places
from server.errors import TurnBroken
from tests.support.each_row import each_row
from tests.support.service import error_of, service

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
        thread_id="t", fault=classify(data.SourceTimeout(source="http://db.internal:8529", seconds=5))
    ),
]


@each_row("language", ["en", "fr"])
@each_row("exc", ERRORS)
def test_no_place_of_the_service_is_in_what_a_client_reads(exc: Exception, language: Language) -> None:
    text = error_response(exc, language).message
    assert text
    assert not [place for place in PLACES if place in text], text


@each_row(
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
    async with service(db=f"sqlite:{tmp_path / 'n.db'}") as running, running.as_() as ed:
        source = running.state.shared.database.source("default")

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
