"""The scripted server itself: what was not scripted, and what was not asked for, fails a test."""

from __future__ import annotations

import http.client
import socket
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


def test_pieces_arrive_as_chunks_and_a_reset_after_them_is_felt() -> None:
    read = threading.Event()
    with ScriptedServer() as server:
        server.play(Answer(pieces=[b"ab", b"c"]), Answer(pieces=[b"ab"], fault="reset", fault_when=read))
        assert ask(server) == (200, b"abc")
        host, port = server.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.request("POST", "/x", b"")
        response = connection.getresponse()
        assert response.read(2) == b"ab"
        read.set()
        with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
            response.read()
        connection.close()


def test_a_hanging_answer_ends_when_the_client_goes() -> None:
    gone = threading.Event()
    with ScriptedServer() as server:
        server.play(Answer(pieces=[b"ab"], fault="hang", gone=gone))
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
            assert client.recv(1)
            assert not gone.is_set()
        assert gone.wait(10)
