"""The scripted server itself: what was not scripted, and what was not asked for, fails a test."""

from __future__ import annotations

import http.client
import threading

import pytest

from tests.support.scripted_http import Answer, Request, ScriptedServer


def ask(server: ScriptedServer, path: str = "/x", body: bytes = b"{}") -> tuple[int, bytes]:
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request("POST", path, body, {"X-Test": "yes"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_answers_come_in_order_and_requests_are_kept() -> None:
    with ScriptedServer() as server:
        server.play(Answer(body={"a": 1}), lambda request: Answer(status=418, body=request.body))
        assert ask(server, "/one") == (200, b'{"a": 1}')
        assert ask(server, "/two", b"echo") == (418, b"echo")
    assert [(r.method, r.path) for r in server.requests] == [("POST", "/one"), ("POST", "/two")]
    assert server.requests[0].headers["x-test"] == "yes"


def test_a_request_that_nobody_scripted_fails() -> None:
    server = ScriptedServer()
    with pytest.raises(AssertionError, match="POST /surprise"), server:
        assert ask(server, "/surprise")[0] == 500


def test_an_answer_that_nobody_asked_for_fails() -> None:
    server = ScriptedServer()
    with pytest.raises(AssertionError, match="2 scripted answers"), server:
        server.play(Answer(), Answer())


def test_a_dropped_connection_and_a_truncated_body_are_felt_by_the_client() -> None:
    with ScriptedServer() as server:
        server.play(Answer(fault="drop"), Answer(body={"long": "body"}, fault="truncate"))
        with pytest.raises(http.client.RemoteDisconnected):
            ask(server)
        with pytest.raises(http.client.IncompleteRead):
            ask(server)


def test_a_held_answer_waits_for_its_release() -> None:
    release = threading.Event()

    def held(request: Request) -> Answer:
        threading.Thread(target=release.set).start()
        return Answer(held=release, body=1)

    with ScriptedServer() as server:
        server.play(held)
        assert ask(server) == (200, b"1")
        assert release.is_set()
