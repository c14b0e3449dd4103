"""One request: where it goes, how long and how large its answer may be, and when
it is sent again.
"""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.support.raw_api import RawApi, answer, raw_api
from tests.support.waiting import until
from tools.http import fetch
from tools.http.addresses import AddressRules, Origin
from tools.http.fetch import HttpClient, PreparedRequest, RequestFailed


def request(api: RawApi, method: Any = "GET", target: str = "/x", **more: Any) -> PreparedRequest:
    origin = Origin(scheme="http", host=more.pop("host", "127.0.0.1"), port=api.port)
    body = None if method == "GET" else b"{}"
    return PreparedRequest(
        method=method, origin=origin, target=target, body=body, key="k:1:0", **more
    )


@pytest_asyncio.fixture
async def api() -> AsyncGenerator[RawApi]:
    async with raw_api() as api:
        yield api


@pytest_asyncio.fixture
async def client(api: RawApi) -> AsyncGenerator[HttpClient]:
    client = HttpClient(api.rules())
    yield client
    await client.aclose()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fetch, "FETCH_LIMITS", replace(fetch.FETCH_LIMITS, retry_waits_s=(0.0, 0.0))
    )


async def failing(client: HttpClient, asked: PreparedRequest) -> RequestFailed:
    with pytest.raises(RequestFailed) as failed:
        await client.send(asked)
    return failed.value


# --- addresses: not a byte reaches a place that is refused


class LyingNames:
    """A resolver that answers each question otherwise, as for rebinding."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize(
    ("host", "answers"),
    [
        ("127.0.0.1", [["8.8.8.8"]]),
        ("public.example", [["127.0.0.1"]]),
        ("both.example", [["8.8.8.8", "127.0.0.1"]]),
        ("both.example", [["127.0.0.1", "8.8.8.8"]]),
        ("mapped.example", [["::ffff:127.0.0.1"]]),
        ("2130706433", [["127.0.0.1"]]),
        ("0x7f.1", [["127.0.0.1"]]),
    ],
)
async def test_not_a_byte_reaches_a_refused_address(
    api: RawApi, host: str, answers: list[list[str]]
) -> None:
    client = HttpClient(AddressRules(resolver=LyingNames(*answers)))
    failed = await failing(client, request(api, host=host))
    assert (failed.code, failed.sent) == ("address_not_allowed", False)
    assert (api.connections, api.bytes) == (0, 0)


async def test_a_name_is_looked_up_once_and_the_checked_address_is_connected_to(
    api: RawApi,
) -> None:
    """Rebinding: what the second look-up would say is never asked for."""
    names = LyingNames(["127.0.0.1"], ["169.254.169.254"])
    client = HttpClient(AddressRules(allow=(f"rebound.example:{api.port}",), resolver=names))
    got = await client.send(request(api, host="rebound.example"))
    assert (got.status, names.asked, api.connections) == (200, 1, 1)
    assert api.got[0].headers["host"] == f"rebound.example:{api.port}", "the name stays the host"
    await client.send(request(api, host="rebound.example"))
    assert (names.asked, api.connections) == (1, 1), "and the connection is kept"
    await client.aclose()


async def test_an_address_is_checked_again_at_each_new_connection(api: RawApi) -> None:
    names = LyingNames(["10.0.0.9"], ["127.0.0.1"])
    client = HttpClient(AddressRules(allow=("10.0.0.9",), resolver=names))
    names.answers = [["127.0.0.1"]]
    assert (
        await failing(client, request(api, host="rebound.example"))
    ).code == "address_not_allowed"
    assert api.bytes == 0


async def test_the_service_itself_gets_not_a_byte_though_its_address_is_listed(api: RawApi) -> None:
    rules = replace(api.rules(), own=(("192.0.2.9", api.port),))
    failed = await failing(HttpClient(rules), request(api))
    assert (failed.code, api.bytes) == ("address_not_allowed", 0)


@pytest.mark.parametrize(
    "leads_to",
    ["http://127.0.0.1:{other}/", "//127.0.0.1:{other}/", "http://inside.example:{other}/"],
)
async def test_a_redirect_to_a_refused_place_sends_nothing_there(
    api: RawApi, leads_to: str
) -> None:
    async with raw_api() as other:
        api.answers = [answer(status=302, Location=leads_to.format(other=other.port))]
        client = HttpClient(api.rules(resolver=LyingNames(["127.0.0.1"])))
        assert (await failing(client, request(api))).code == "address_not_allowed"
        assert other.bytes == 0
        await client.aclose()


@pytest.mark.parametrize(
    "leads_to", ["file:///etc/passwd", "ftp://a/", "http://u:p@127.0.0.1/", "http://[::1/"]
)
async def test_a_redirect_to_what_is_no_address_is_refused(
    api: RawApi, client: HttpClient, leads_to: str
) -> None:
    api.answers = [answer(status=302, Location=leads_to)]
    assert (await failing(client, request(api))).code == "address_not_allowed"


# --- redirects


async def test_a_redirect_is_followed_for_get_and_secrets_stay_at_their_origin(api: RawApi) -> None:
    headers = (("Authorization", "Bearer s3cr3t-value"), ("X-Plain", "1"))
    async with raw_api() as other:
        client = HttpClient(
            AddressRules(allow=(f"127.0.0.1:{api.port}", f"127.0.0.1:{other.port}"))
        )
        api.answers = [
            answer(status=301, Location="/moved?a=é b"),
            answer(status=307, Location=f"{other.url}/far"),
        ]
        asked = request(api, headers=headers, secret_headers=frozenset(("Authorization",)))
        assert (await client.send(asked)).status == 200
        assert [got.target for got in api.got] == ["/x", "/moved?a=%C3%A9%20b"]
        assert api.got[1].headers["authorization"] == "Bearer s3cr3t-value"
        assert other.got[0].target == "/far"
        assert "authorization" not in other.got[0].headers
        assert other.got[0].headers["x-plain"] == "1"
        await client.aclose()


@pytest.mark.parametrize(
    ("method", "requests"), [("GET", 4), ("POST", 1), ("PUT", 1), ("DELETE", 1)]
)
async def test_redirects_end_after_three_and_others_than_get_are_not_followed(
    api: RawApi, client: HttpClient, method: str, requests: int
) -> None:
    api.answers = [answer(status=302, Location="/again")]
    assert (await failing(client, request(api, method))).code == "redirected"
    assert len(api.got) == requests


# --- retries


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize(
    "trouble", [hang_up, answer(status=502), answer(status=503), answer(status=504)]
)
@pytest.mark.parametrize(
    ("method", "requests"), [("GET", 3), ("PUT", 3), ("DELETE", 3), ("POST", 1), ("PATCH", 1)]
)
async def test_only_what_may_be_repeated_is_sent_again_with_the_same_key(
    api: RawApi, client: HttpClient, method: str, requests: int, trouble: Any
) -> None:
    api.answers = [trouble]
    asked = request(api, method, retries=2)
    if callable(trouble):
        failed = await failing(client, asked)
        assert (failed.code, failed.sent) == ("unreachable", True)
    else:
        assert (await client.send(asked)).status in (502, 503, 504)
    assert len(api.got) == requests
    keys = {got.headers.get("idempotency-key") for got in api.got}
    assert keys == {None if method == "GET" else "k:1:0"}


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
async def test_a_request_of_which_nothing_was_sent_is_sent_again(api: RawApi, method: str) -> None:
    # no address twice, as where a name server has trouble
    names = LyingNames([], [], ["127.0.0.1"])
    client = HttpClient(AddressRules(allow=("late.example",), resolver=names))
    assert (await client.send(request(api, method, host="late.example", retries=2))).status == 200
    assert (names.asked, len(api.got)) == (3, 1)
    names.answers = [[]]
    names.asked = 0
    await client.aclose()
    failed = await failing(client, request(api, method, host="late.example", retries=1))
    assert (failed.code, failed.sent, names.asked) == ("unreachable", False, 2)


async def test_an_address_that_does_not_answer_gives_way_to_the_next(api: RawApi) -> None:
    names = LyingNames(["::1", "127.0.0.1"])
    client = HttpClient(AddressRules(allow=("two.example",), resolver=names))
    assert (await client.send(request(api, "POST", host="two.example"))).status == 200
    await client.aclose()


@pytest.mark.parametrize(
    ("after", "requests"), [("0", 2), ("1", 2), ("3", 1), ("soon", 1), ("-1", 1), ("9" * 400, 1)]
)
async def test_a_server_that_asks_to_wait_a_little_is_asked_once_more(
    api: RawApi, client: HttpClient, after: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(fetch.asyncio, "sleep", sleep)
    api.answers = [answer(status=429, Retry_After=after)]
    assert (await client.send(request(api, retries=2))).status == 429
    assert len(api.got) == requests
    assert waits == ([] if requests == 1 else [float(after)])


# --- bounds


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(5)


def endless(part: bytes, head: bytes = b"") -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\n" + head)
        while not writer.is_closing():
            writer.write(part)
            await writer.drain()

    return write


@pytest.mark.parametrize("slow", [drip, silence], ids=["drip", "silence"])
async def test_a_slow_answer_ends_with_the_time_of_the_request_and_its_retries(
    api: RawApi, client: HttpClient, slow: Any
) -> None:
    api.answers = [slow]
    failed = await failing(client, request(api, timeout_s=0.3, retries=2))
    assert (failed.code, failed.fact) == ("timed_out", "0.3")
    assert len(api.got) == 1


BOMB = b" " * 3_000_000


@pytest.mark.parametrize(
    "large",
    [
        answer(b'"' + b"x" * 10_000_000 + b'"'),
        endless(b"x" * 65_536, b"Content-Length: 999999999\r\n\r\n"),
        endless(b"10000\r\n" + b"x" * 65_536 + b"\r\n", b"Transfer-Encoding: chunked\r\n\r\n"),
        answer(gzip.compress(BOMB), Content_Encoding="gzip"),
        answer(zlib.compress(BOMB), Content_Encoding="deflate"),
        answer(b"[" + b"1," * 131_072 + b"1]"),
    ],
    ids=["10 MB", "endless", "chunked", "gzip bomb", "zlib bomb", "just too large"],
)
async def test_an_answer_is_read_to_its_bound_of_decoded_bytes(
    api: RawApi, client: HttpClient, large: Any
) -> None:
    api.answers = [large]
    assert (await failing(client, request(api))).code == "too_large"
    api.answers = [answer({"still": "works"})]
    assert (await client.send(request(api))).value == {"still": "works"}


@pytest.mark.slow
async def test_thousands_of_tiny_chunks_do_not_hold_up_others(
    api: RawApi, client: HttpClient
) -> None:
    api.answers = [answer_in_chunks(60_000)]
    asked = asyncio.create_task(client.send(request(api, timeout_s=30)))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await asked).value) == 60_000
    assert turns > 250, "others come to their turn"


def answer_in_chunks(count: int) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def write(writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head + b"1\r\nx\r\n" * count + b"0\r\n\r\n")
        await writer.drain()

    return write


async def test_endless_headers_end(api: RawApi, client: HttpClient) -> None:
    api.answers = [endless(b"X-A: " + b"a" * 1_000 + b"\r\n")]
    assert (await failing(client, request(api, timeout_s=3, retries=0))).code == "unreachable"


@pytest.mark.parametrize("depth", [101, 3_000, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
async def test_deep_json_is_refused(
    api: RawApi, client: HttpClient, depth: int, opening: str
) -> None:
    closing = "]" if opening == "[" else "}"
    depth = min(depth, 250_000 // (len(opening) + 1))
    api.answers = [answer((opening * depth + "1" + closing * depth).encode())]
    assert (await failing(client, request(api))).code == "too_deep"


async def test_json_to_the_depth_allowed_is_read(api: RawApi, client: HttpClient) -> None:
    text = "[" * 100 + "1" + "]" * 100
    api.answers = [answer(text.encode())]
    assert json.dumps((await client.send(request(api))).value) == text


@pytest.mark.parametrize(
    ("sent", "value", "is_text"),
    [
        (answer({"a": 1}), {"a": 1}, False),
        (answer(b"[1]", content_type="text/plain"), [1], False),
        (answer(b'\xef\xbb\xbf{"a":1}'), {"a": 1}, False),
        (answer(b""), None, False),
        (answer(b" \n"), None, False),
        (answer(status=204), None, False),
        (answer(b"hello", content_type="text/plain"), "hello", True),
        (answer(b"\xff\x00", content_type="image/png"), "\ufffd\x00", True),
        (answer(gzip.compress(b'{"a":1}'), Content_Encoding="gzip"), {"a": 1}, False),
        (answer(b"<h1>no</h1>", status=500), "<h1>no</h1>", True),
    ],
)
async def test_an_answer_is_json_where_it_can_be_read_so_else_its_text(
    api: RawApi, client: HttpClient, sent: bytes, value: Any, is_text: bool
) -> None:
    api.answers = [sent]
    got = await client.send(request(api, retries=0))
    assert (got.value, got.is_text) == (value, is_text)


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        ("not_json", answer(b"{broken")),
        ("not_json", answer(b'{"a": NaN}')),
        ("not_json", answer(b"{}", Content_Encoding="br")),
        ("not_json", answer(b"no gzip", Content_Encoding="gzip")),
        ("unreachable", b"HTTP/9.9 what\r\n\r\n"),
        ("unreachable", b"\x00" * 500),
        ("unreachable", b"HTTP/1.1 200 X\r\nContent-Length: -1\r\n\r\n"),
    ],
)
async def test_what_says_it_is_json_or_http_and_is_none_is_an_error(
    api: RawApi, client: HttpClient, code: str, sent: bytes
) -> None:
    api.answers = [sent]
    assert (await failing(client, request(api, "POST"))).code == code


async def test_at_most_twenty_connections_and_none_after_cancelling(
    api: RawApi, client: HttpClient
) -> None:
    api.answers = [silence]
    asked = [asyncio.create_task(client.send(request(api, timeout_s=5))) for _ in range(30)]
    await until(lambda: api.connections >= 20)
    await asyncio.sleep(0.05)
    assert api.connections == 20
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    api.answers = [answer({})]
    assert (await client.send(request(api))).status == 200


async def test_proxies_of_the_environment_and_cookies_are_not_used(
    api: RawApi, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    api.answers = [answer({}, Set_Cookie="caller=1; Path=/")]
    await client.send(request(api))
    await client.send(request(api))
    assert "cookie" not in api.got[1].headers
