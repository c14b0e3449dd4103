"""Which hosts may be reached: every address of a name, in every spelling."""

from collections.abc import Sequence
from typing import Any

import pytest

from graphrag.agents.document_check import check_document
from tools.http.addresses import AddressRefused, AddressRules, host_matches, origin_of
from tools.http.compiled import MAX_TOOL_S, compile_tool
from tools.http.model import HttpTool
from tools.http.problems import DocumentProblem
from tools.http.request_url import parse_url


def resolving(*addresses: str, **more: tuple[str, ...]) -> AddressRules:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return addresses

    return AddressRules(resolver=resolver, **more)


REFUSED = (
    *(
        "127.0.0.1",
        "127.9.9.9",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "0.0.0.0",
    ),
    *(
        "0.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "192.0.2.1",
    ),
    *("224.0.0.1", "240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *(
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
    ),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "::8.8.8.8"),
    *("2002:808:808::1", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808"),
    *("2001:0:7f00:1::", "2001:0:808:808:0:0:5601:5601", "3fff::1", "5f00::1", "100:0:0:1::1"),
)
PUBLIC = ("8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808")


@pytest.mark.parametrize("address", [*REFUSED])
async def test_what_is_not_public_is_refused_as_a_name_and_as_a_literal(address: str) -> None:
    with pytest.raises(AddressRefused):
        await resolving(address).check("a.example", 443)
    with pytest.raises(AddressRefused):
        await resolving("8.8.8.8").check(address, 443)


@pytest.mark.parametrize("address", [*PUBLIC])
async def test_what_is_public_is_allowed(address: str) -> None:
    assert await resolving(address).check("a.example", 443) == [address]


@pytest.mark.parametrize("inside", ["127.0.0.1", "169.254.169.254", "::1", "fe80::1"])
async def test_one_private_address_among_public_ones_refuses_the_name(inside: str) -> None:
    for order in (("8.8.8.8", inside), (inside, "8.8.8.8"), ("8.8.8.8", "2606:4700::1", inside)):
        with pytest.raises(AddressRefused):
            await resolving(*order).check("a.example", 443)


@pytest.mark.parametrize(
    "host",
    [
        "0x7f.1",
        "2130706433",
        "0x7f000001",
        "127.1",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.0x1",
        "1",
    ],
)
async def test_an_odd_spelling_of_an_address_is_refused_without_a_look_up(host: str) -> None:
    with pytest.raises(AddressRefused, match="odd spelling"):
        await resolving("8.8.8.8", allow=(host,)).check(host, 80)


async def test_the_administrator_opens_a_host_a_network_or_an_address_and_nothing_beside_it() -> (
    None
):
    rules = resolving(
        "10.1.2.3", allow=("api.internal:8443", "10.7.0.0/16", "[::1]:9000", "localhost")
    )
    assert await rules.check("api.internal", 8443)
    for host, port in (("api.internal", 443), ("other.internal", 8443), ("10.1.2.3", 8443)):
        with pytest.raises(AddressRefused):
            await rules.check(host, port)
    assert await rules.check("10.7.1.1", 1)
    assert await rules.check("::1", 9000)
    assert await rules.check("localhost", 1)
    with pytest.raises(AddressRefused):
        await rules.check("::1", 9001)


async def test_metadata_is_opened_by_its_exact_address_only() -> None:
    for allow in (("169.254.0.0/16",), ("meta.internal",), ("0.0.0.0/0",)):
        with pytest.raises(AddressRefused):
            await resolving("169.254.169.254", allow=allow).check("meta.internal", 80)
    allowed = resolving(allow=("169.254.169.254",))
    assert await allowed.check("169.254.169.254", 80)


async def test_a_list_of_hosts_closes_all_others() -> None:
    rules = resolving("8.8.8.8", only=("*.example.com", "api.org:8443"))
    assert await rules.check("a.example.com", 443)
    assert await rules.check("api.org", 8443)
    for host, port in (("example.com", 443), ("a.example.com.evil.org", 443), ("api.org", 443)):
        with pytest.raises(AddressRefused, match="other hosts only"):
            await rules.check(host, port)
    with pytest.raises(AddressRefused):
        await resolving("127.0.0.1", only=("*.example.com",)).check("a.example.com", 443)


@pytest.mark.parametrize("listens", ["127.0.0.1", "0.0.0.0", "::", "localhost", "me.example"])
async def test_the_service_itself_is_refused_whatever_is_allowed(listens: str) -> None:
    everything = ("0.0.0.0/0", "::/0", "localhost", "127.0.0.1", "me.example")
    address = "8.8.8.8" if listens == "me.example" else "127.0.0.1"
    host = "me.example" if listens == "me.example" else "localhost"
    rules = resolving(address, allow=everything, own=((listens, 8426),))
    with pytest.raises(AddressRefused, match="the service itself"):
        await rules.check(host, 8426)
    assert await rules.check(host, 8427)


async def test_a_name_without_addresses_cannot_be_looked_up() -> None:
    with pytest.raises(OSError, match="no address"):
        await resolving().check("a.example", 443)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://a.example",
            "//a.example",
            "https://",
            "https://u:p@a.example",
            "https://u@a.example/x",
        ),
        *(
            "https://a.example:99999",
            "https://a.example:0",
            "https://[fe80::1%25eth0]/",
            "https://[::1",
        ),
        *("javascript:alert(1)", "file:///etc/passwd", "https://a" + "b" * 70 + ".example"),
    ],
)
def test_an_address_that_leads_nowhere_is_a_value_error(url: str) -> None:
    with pytest.raises(ValueError):
        origin_of(url)


def test_an_origin_is_written_without_its_usual_port() -> None:
    assert str(origin_of("HTTPS://Bücher.Example:443/x")) == "https://xn--bcher-kva.example"
    assert str(origin_of("http://[::1]:8080/")) == "http://[::1]:8080"
    assert origin_of("https://a.example.").host == "a.example"


def test_a_pattern_means_a_host_a_port_or_what_is_below_a_name() -> None:
    assert host_matches("A.example", "a.EXAMPLE", 1)
    assert host_matches("*.example", "b.a.example", 1)
    assert not host_matches("*.example", "example", 1)
    assert not host_matches("*.example", "aexample", 1)
    assert host_matches("::1", "::1", 80)
    assert not host_matches("a.example:80", "a.example", 81)


STOP = {"condition": "ctx.x", "fail_return": 1}
SECRETS = [{"name": "KEY", "hosts": ["api.example"]}, {"name": "O", "hosts": ["o.example"]}]


def mistakes(
    base_url: str | None = "https://api.example/v1/", **tool: Any
) -> list[DocumentProblem]:
    return list(
        check_document(
            {
                "version": "2.0",
                "agent": {"id": "a", "name": "A"},
                "session": {"mode": "inline", "instructions": "-"},
                "tools": {"t": {"type": "http", "url": "{{base_url}}/x", **tool}},
                "secrets": SECRETS,
                **({} if base_url is None else {"base_url": base_url}),
            }
        ).errors
    )


@pytest.mark.parametrize(
    ("document", "where", "code"),
    [
        ({"url": "https://{{args.host}}/x"}, "url", "host_not_literal"),
        ({"url": "{{args.url}}"}, "url", "host_not_literal"),
        ({"url": "{{base_url}}.evil.example/x"}, "url", "host_not_literal"),
        ({"url": "{{base_url}}@evil.example/x"}, "url", "host_not_literal"),
        ({"url": "{{base_url}}:81/x"}, "url", "host_not_literal"),
        ({"url": "https://a.example{{args.x}}"}, "url", "host_not_literal"),
        ({"url": "https://a.example\\@b.example/"}, "url", "host_not_literal"),
        ({"url": "https://u:p@a.example/x"}, "url", "host_not_literal"),
        ({"url": "https://a.example:99999/x"}, "url", "host_not_literal"),
        ({"url": "ftp://a.example/x"}, "url", "host_not_literal"),
        ({"url": "/x"}, "url", "host_not_literal"),
        ({"url": "{{base_url}}/x", "base_url": None}, "url", "missing_base_url"),
        ({"url": "{{base_url}}/{{args.x"}, "url", "bad_template"),
        ({"url": "{{base_url}}/{{secret.KEY}}"}, "url", "secret_not_allowed_here"),
        ({"params": {"a": ["{{nowhere.x}}"]}}, "params.a.0", "unknown_namespace"),
        ({"headers": {"Host": "x"}}, "headers.Host", "bad_name"),
        ({"headers": {"content-LENGTH": "1"}}, "headers.content-LENGTH", "bad_name"),
        ({"headers": {"A b": "1"}}, "headers.A b", "bad_name"),
        ({"headers": {"A": "{{secret.NONE}}"}}, "headers.A", "undeclared_secret"),
        ({"headers": {"A": "{{secret.O}}"}}, "headers.A", "secret_not_allowed_here"),
        ({"body": {}}, "body", "body_with_get"),
        ({"body_builder": "confirm_order"}, "body_builder", "body_with_get"),
        (
            {"method": "POST", "body": {}, "body_builder": "confirm_order"},
            "body_builder",
            "both_body_and_builder",
        ),
        ({"method": "POST", "body_builder": "nothing"}, "body_builder", "unknown_builder"),
        (
            {"store_in_ctx": {"had_conversation": "$"}},
            "store_in_ctx.had_conversation",
            "reserved_name",
        ),
        ({"store_in_ctx": {"a": "$["}}, "store_in_ctx.a", "bad_jsonpath"),
        ({"on_success_flags": ["ok", "should_hangup"]}, "on_success_flags.1", "reserved_name"),
        ({"success_if": "$.a ="}, "success_if", "bad_expression"),
        (
            {"on_success": {"return": {"e": "{{error}}"}}},
            "on_success.return.e",
            "unknown_namespace",
        ),
        (
            {"pre_steps": [STOP, {**STOP, "fail_before": "ctx.y"}]},
            "pre_steps.1.fail_before",
            "duplicate_name",
        ),
        ({"pre_steps": [{"condition": "ctx.x"}]}, "pre_steps.0.fail_return", "missing_field"),
        ({"pre_steps": [{"extract": {"a": "$"}}]}, "pre_steps.0.url", "missing_field"),
        ({"pre_steps": [{**STOP, "condition": "f()"}]}, "pre_steps.0.condition", "bad_expression"),
        (
            {"pre_steps": [{**STOP, "fail_return": "{{ctx.x"}]},
            "pre_steps.0.fail_return",
            "bad_template",
        ),
        (
            {"pre_steps": [{"url": "{{base_url}}/{{order}}"}]},
            "pre_steps.0.url",
            "unknown_namespace",
        ),
    ],
)
def test_a_mistake_is_found_at_its_place(document: dict[str, Any], where: str, code: str) -> None:
    found = mistakes(**document)
    assert [(problem.where, problem.code) for problem in found] == [(f"tools.t.{where}", code)]
    assert found[0].what


def test_all_mistakes_are_found_at_once_with_columns_of_the_text() -> None:
    found = mistakes(
        url="{{base_url}}/a/{{nope.x}}",
        params={"b": "{{c.d}}"},
        store_in_ctx={"e": "f"},
        success_if="g(",
    )
    assert {problem.where.removeprefix("tools.t.") for problem in found} == {
        *("url", "params.b", "store_in_ctx.e", "success_if")
    }
    assert next(p.column for p in found if p.where.endswith("url")) == 18


def test_the_path_of_the_base_url_stands_before_that_of_the_tool() -> None:
    origin, beginning = parse_url("{{ base_url }}?x=1").beginning("https://api.example/v 1/")
    assert (str(origin), beginning) == ("https://api.example", "/v%201")


def test_a_tool_has_the_time_of_its_requests_together_to_a_bound() -> None:
    steps = [{"url": "{{base_url}}/s", "timeout_s": 40}, {**STOP}]
    tool = {"type": "http", "url": "{{base_url}}/x", "timeout_s": 5}
    one = compile_tool("t", HttpTool.model_validate(tool))
    many = compile_tool("t", HttpTool.model_validate({**tool, "pre_steps": steps, "timeout_s": 30}))
    assert (one.timeout_s, many.timeout_s) == (5, MAX_TOOL_S)
