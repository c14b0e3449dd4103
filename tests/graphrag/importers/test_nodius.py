"""Nodius JSON: exports import to themselves, and what is wrong in a file is named."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.mock.source import open_nba
from graphrag.importers import UnreadableWorkflow, export_graph
from graphrag.importers.exchange import export_document, import_file
from graphrag.importers.readable_keys import derive_graph_key, key_fault
from graphrag.importers.report import Tally
from graphrag.importers.secrets import PLACEHOLDER, scrub_text
from mock_data import load_json
from tests.graphrag.importers.helpers import (
    WORKSPACE,
    Workbench,
    dropped_count,
    n8n,
    n8n_node,
    read,
)
from tools import secret_texts

Change = Callable[[dict[str, Any]], Any]


async def _nba() -> dict[str, Any]:
    return await export_document(open_nba(WORKSPACE).source(WORKSPACE), "testgraph001")


def _text(document: Any) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


async def test_export_keeps_fields_it_does_not_know() -> None:
    document = await _nba()
    document["graph"]["colour"] = "red"
    document["nodes"][0]["future"] = {"a": [1, None]}
    document["edges"][0]["bend"] = 0.5
    document["configs"][0]["node"]["extra"] = True
    bench = Workbench()
    await bench.take(document)
    assert await bench.exported("testgraph001") == _text(document)


async def test_bare_sample_without_a_frame_is_read() -> None:
    result = read(load_json("nba.json"))
    assert result.report.format == "nodius"
    assert result.report.lines() == []
    document = export_graph(result.graph, result.nodes, result.edges, result.configs)
    assert _text({**document, "graph": None}) == _text({**await _nba(), "graph": None})


async def test_import_under_another_key_moves_every_document() -> None:
    result = read(await _nba(), graph_key="copy")
    assert result.graph.key == "copy"
    assert {d.graph_key for d in (*result.nodes, *result.edges)} == {"copy"}
    assert {config.workspace for config in result.configs} == {WORKSPACE}


async def test_revision_and_vectors_stay_behind() -> None:
    document = await _nba()
    assert "revision" not in document["graph"]
    document["nodes"][0]["embedding"] = [0.1, 0.2]
    result = read(document)
    assert dropped_count(result.report, "vector") == 1
    assert _text(export_graph(result.graph, result.nodes, result.edges, result.configs)) == _text(
        await _nba()
    )


async def test_edge_at_a_missing_handle_is_kept_and_said() -> None:
    document = await _nba()
    document["edges"][0]["sourceHandle"] = "nowhere"
    result = read(document)
    assert len(result.edges) == len(document["edges"])
    assert "uses a handle that its node does not have" in result.report.lines()[0]


@pytest.mark.parametrize(("version", "name"), [(0.5, "Filter"), (1, "Filter"), (2, "Sieve")])
async def test_type_of_another_file_replaces_one_only_if_it_is_newer(
    version: float, name: str
) -> None:
    document = await _nba()
    bench = Workbench()
    await bench.take(document)
    config = next(c for c in document["configs"] if c["_key"] == "filter")
    config |= {"displayName": "Sieve", "version": version}
    outcome = await bench.take(document, graph_key="another")
    assert [c.display_name for c in await bench.source.get_node_configs(["filter"])] == [name]
    assert "the node type filter" in outcome.remarks()[-1]


async def test_type_that_the_file_alone_changed_is_changed() -> None:
    document = await _nba()
    bench = Workbench()
    await bench.take(document)
    config = next(c for c in document["configs"] if c["_key"] == "filter")
    config |= {"displayName": "Sieve"}
    outcome = await bench.take(document)
    assert (outcome.taken, outcome.remarks()) == (1, [])
    assert [c.display_name for c in await bench.source.get_node_configs(["filter"])] == ["Sieve"]


async def test_type_that_every_workspace_sees_is_not_copied() -> None:
    document = await _nba()
    bench = Workbench()
    for config in read(document).configs:
        await bench.database.source("root").put_node_config(config.replace(workspace="root"))
    assert (await bench.take(document)).remarks() == []
    assert {c.workspace for c in await bench.source.get_node_configs()} == {"root"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d.update(formatVersion=2), "formatVersion is 2"),
        (lambda d: d.update(formatVersion=True), "formatVersion is True"),
        (lambda d: d.pop("formatVersion"), "formatVersion is None"),
        (lambda d: d.update(extra=1), "'extra'"),
        (lambda d: d.pop("edges"), "'edges' must be a list"),
        (lambda d: d.update(configs={}), "'configs' must be a list"),
        (lambda d: d.pop("graph"), "graphs/\\?"),
        (lambda d: d["graph"].pop("name"), "graphs/testgraph001: field 'name'"),
        (lambda d: d["graph"].pop("_key"), "graphs/\\?: field '_key'"),
        (lambda d: d["nodes"].append(3), "nodes/\\?: field 'number 10'"),
        (lambda d: d["nodes"][0].update(posX="left"), "nodes/.*: field 'posX"),
        (lambda d: d["nodes"].append(d["nodes"][0]), "nodes are put twice"),
        (lambda d: d["nodes"][0].update(graphKey="other"), "field 'graphKey': is 'other'"),
        (lambda d: d["nodes"][0].update(sheet="9"), "a sheet that the graph does not have"),
        (lambda d: d["edges"][0].update(target="gone"), "edges without a node at an end"),
        (lambda d: d["configs"][0].pop("displayName"), "node_configs/.*: field 'displayName'"),
    ],
)
async def test_wrong_document_is_named(change: Change, named: str) -> None:
    document = await _nba()
    change(document)
    with pytest.raises(UnreadableWorkflow, match=named):
        read(document)


@pytest.mark.parametrize(
    "key",
    [
        "",
        ".",
        "..",
        "...",
        "a/b",
        "/",
        "a\\b",
        "a%2fb",
        "%00",
        "a\x00",
        "a\x7f",
        " a",
        "a ",
        "k" * 201,
    ],
)
def test_a_key_that_an_address_cannot_carry_has_a_fault(key: str) -> None:
    assert key_fault(key)


@given(
    key=st.text(min_size=1, max_size=40) | st.text(alphabet="a./%2F\\ #?é", min_size=1, max_size=6)
)
def test_a_key_without_fault_is_one_part_of_an_address_however_often_it_is_decoded(
    key: str,
) -> None:
    if key_fault(key) is None:
        base = "http://127.0.0.1/api/graphs/"
        at = urljoin(base, quote(key, safe=""))
        assert at.startswith(base)
        assert unquote(at.removeprefix(base)) == unquote(unquote(at.removeprefix(base))) == key
        assert "/" not in key


@given(
    name=st.text(max_size=30),
    identity=st.none() | st.text(max_size=10),
    file_name=st.text(max_size=30),
)
def test_a_key_made_from_names_has_no_fault(
    name: str, identity: str | None, file_name: str
) -> None:
    assert key_fault(derive_graph_key(name=name, identity=identity, file_name=file_name)) is None


async def test_a_file_whose_graph_has_such_a_key_is_refused_until_another_is_named(
    tmp_path: Path,
) -> None:
    bench = Workbench(workspace="w")
    file = tmp_path / "graph.json"
    graph = {"_key": "../a", "name": "A", "workspace": "w"}
    file.write_bytes(orjson.dumps({"graph": graph, "nodes": [], "edges": [], "configs": []}))
    refused = (await import_file(bench.approvals, file, bench.person))[0].refused
    assert refused is not None
    assert "'../a'" in refused
    assert "choose another key" in refused
    assert await bench.source.list_graphs() == []
    assert (await import_file(bench.approvals, file, bench.person, graph_key="a"))[
        0
    ].action == "created"


async def test_a_graph_that_has_such_a_key_already_is_still_brought_up_to_date(
    tmp_path: Path,
) -> None:
    bench = Workbench(workspace="w")
    file = tmp_path / "graph.json"
    document = {
        "graph": {"_key": "a", "name": "A", "workspace": "w"},
        "nodes": [],
        "edges": [],
        "configs": [],
    }
    file.write_bytes(orjson.dumps(document))
    await import_file(bench.approvals, file, bench.person)
    [graph] = await bench.source.list_graphs()
    await bench.source.create_graph(graph.replace(key="old/key"))
    document["graph"] = {"_key": "old/key", "name": "Renamed", "workspace": "w"}
    file.write_bytes(orjson.dumps(document))
    [done] = await import_file(bench.approvals, file, bench.person, replaces=True)
    assert (done.action, (await bench.source.get_graph("old/key")).name) == ("updated", "Renamed")


TOKEN = "sk-" + "a1B2" * 8


def _imported(parameters: Any, **fields: Any) -> tuple[bytes, int]:
    result = read(n8n([n8n_node("A", parameters=parameters, **fields)]))
    return result.nodes[0].to_json(), sum(
        item.count for item in result.report.notices if item.what == "dropped"
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"password": "hush-hush"},
        {"options": {"clientSecret": "hush-hush"}},
        {"apiKey": "hush-hush"},
        {"api-key": "hush-hush"},
        {"headers": [{"name": "Authorization", "value": "hush-hush"}]},
        {"headers": [{"name": "X-API-Key", "value": "hush-hush"}]},
        {"assignments": [{"name": "botToken", "value": "hush-hush"}]},
        {"text": f"key {TOKEN.replace('a1B2', 'hush-hush')} end"},
        {"jsCode": "fetch(u, {headers: {Authorization: 'Bearer hush-hush.hush-hush'}})"},
        {"url": "https://ed:hush-hush@api.example/v1?limit=3"},
        {"url": "postgres://ed:hush-hush@p@db.example:5432/x"},
        {"url": "redis://:hush-hush@cache.example"},
        {"url": "https://api.example/v1?limit=3&api_key=hush-hush&page=2"},
        {"url": "=https://api.example/{{ $json.id }}?access_token=hush-hush"},
        {"url": "https://store.example/blob?sv=1&sig=hush-hush%3D"},
        {"jsCode": "await fetch('https://api.example/?apikey=hush-hush')"},
    ],
)
def test_secret_value_is_left_out_and_said(parameters: Any) -> None:
    stored, dropped = _imported(parameters)
    assert b"hush-hush" not in stored
    assert dropped == 1


@pytest.mark.parametrize(
    "parameters",
    [
        {"password": "={{ $json.password }}"},
        {"apiKey": "{{secrets.key}}"},
        {"token": "${TOKEN}"},
        {"password": ""},
        {"authentication": "basicAuth", "sendHeaders": True},
        {"maxTokens": 400, "tokenCount": "400"},
        {"headers": [{"name": "Accept", "value": "text/plain"}]},
        {"text": "Basic auth and Bearer tokens explained"},
        {"field": "password"},
        {"url": "https://api.example:8443/v1?token={{ $json.token }}&page=2"},
        {"url": "https://ed:${PASSWORD}@api.example/v1"},
        {"url": "https://ed@api.example/a:b@c?to=a:b@c.example"},
        {"url": "http://api.example:8080?mail=ed@example.org&author=me&key=name"},
        {"text": "const url = `https://api.example?api_key=${key}` + '&token=' + t"},
    ],
)
def test_harmless_value_stays(parameters: Any) -> None:
    result = read(n8n([n8n_node("A", parameters=parameters)]))
    assert result.nodes[0].data["parameters"] == parameters
    assert result.report.lines() == []


def test_credentials_keep_their_names_only() -> None:
    held = {
        "openAiApi": {"id": "17", "name": "Our account"},
        "oldApi": "By name",
        "slackApi": {"name": "Chat", "accessToken": "hush-hush"},
        "oddApi": ["hush-hush"],
    }
    result = read(n8n([n8n_node("A", credentials=held)]))
    assert result.nodes[0].data["credentials"] == {
        "openAiApi": "Our account",
        "oldApi": "By name",
        "slackApi": "Chat",
        "oddApi": "",
    }
    assert b"hush-hush" not in result.nodes[0].to_json()
    assert dropped_count(result.report, "credential") == 2


def test_an_address_without_its_secrets_is_imported_again_as_it_is() -> None:
    address = "https://ed:hush@api.example/v1?api_key=hush&page=2#top"
    once = read(n8n([n8n_node("A", parameters={"url": address})]))
    left = once.nodes[0].data["parameters"]["url"]
    assert left == f"https://ed:{PLACEHOLDER}@api.example/v1?api_key={PLACEHOLDER}&page=2#top"
    again = read(n8n([n8n_node("A", parameters={"url": left})]))
    assert again.nodes[0].data["parameters"]["url"] == left
    assert again.report.lines() == []


_N = 100_000
_WORST: dict[str, str] = {
    "_SECRET_FIELD": "secretkeyapi" * _N,
    "_TOKEN": "-sk-ghp_xoxa-" * _N,
    "_PREFIX": "a-" * _N + "sk_" * _N + "a" * _N,
    "_FIRST_PART": "a" * _N,
    "_BODY": "." * _N + "a" * _N,
    "_RANDOM": "a1b2-" * _N + "a" * 23 + "-" * _N,
    "_STAND_IN": "xxx.." * _N + "your" * _N,
    "_HOOK": "hooks.slack.com/services/" * _N + "discord.com/api/webhooks/" + "1" * _N,
    "_PEM": "-----BEGIN PRIVATE KEY-----" * _N + "-----BEGIN PRIVATE KEY-----" + "a\n" * _N,
    "_SIGNED": "-eyJ" * _N + "." + "eyJabcdefghijkl." * _N + ".." * _N,
    "_BEGIN": "-eyeyJ"[:4] * _N,
    "_BEARER": "Bearer " * _N + "Bearer" + " " * _N,
    "_LOGIN": "://a:" * _N + "://" + "a" * _N + ":" + "b" * _N,
    "_PARAMETER": ("?" + "a" * 61) * (_N // 10) + "?a=" * _N + "?" * _N,
    "REFERENCE": " " * _N + "<" * _N + "<a" * _N + "{$" * _N + "your-a" * _N + "$a." * _N,
}
"""For each pattern, text that begins to match at every place and never, or late, goes on
to its end.
"""


def test_every_pattern_has_a_worst_case_here() -> None:
    assert {
        name for name, value in vars(secret_texts).items() if isinstance(value, re.Pattern)
    } == _WORST.keys()


@pytest.mark.parametrize("name", [*sorted(_WORST)])
def test_worst_case_of_a_pattern_is_read_in_one_go(name: str) -> None:
    """Seconds are far from what it takes; where each letter is read again from each place,
    so are minutes.
    """
    pattern: re.Pattern[str] = vars(secret_texts)[name]
    began = time.process_time()
    pattern.subn("", _WORST[name])
    assert time.process_time() - began < 30


@pytest.mark.parametrize("part", ["-eyJ", "Bearer ", "://a:", "?a=", "&a", "<"])
def test_text_that_begins_as_many_secrets_is_read_in_one_go(part: str) -> None:
    began = time.process_time()
    scrub_text(part * _N, Tally(), "A")
    assert time.process_time() - began < 30


def test_token_is_found_behind_a_hyphen_and_in_the_middle_of_a_line() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
    tally = Tally()
    assert scrub_text(f"a-{token}, b={token};", tally, "A") == f"a-{PLACEHOLDER}, b={PLACEHOLDER};"
    assert (
        scrub_text("eyJ.eyJ.eyJ, x.eyJhbGciOiJIUzI1.short", tally, "A")
        == "eyJ.eyJ.eyJ, x.eyJhbGciOiJIUzI1.short"
    )
    assert [item.count for item in tally.report("n8n").notices] == [2]
