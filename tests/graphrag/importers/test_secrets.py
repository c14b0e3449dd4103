"""Secrets stay out of a graph wherever a workflow obviously holds them; references to them stay in."""

from __future__ import annotations

import re
import time
from typing import Any

from graphrag.importers.report import Tally
from graphrag.importers.secrets import PLACEHOLDER, scrub_text
from tests.graphrag.importers.helpers import dropped_count, n8n, n8n_node, read
from tests.support.each_row import each_row
from tools import secret_texts

TOKEN = "sk-" + "a1B2" * 8


def _imported(parameters: Any, **fields: Any) -> tuple[bytes, int]:
    result = read(n8n([n8n_node("A", parameters=parameters, **fields)]))
    return result.nodes[0].to_json(), sum(
        item.count for item in result.report.notices if item.what == "dropped"
    )


@each_row(
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


@each_row(
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
    "_SIGNED": "-eyJ" * _N + "." + "eyJabcdefghijkl." * _N + ".." * _N,
    "_BEGIN": "-eyeyJ"[:4] * _N,
    "_BEARER": "Bearer " * _N + "Bearer" + " " * _N,
    "_LOGIN": "://a:" * _N + "://" + "a" * _N + ":" + "b" * _N,
    "_PARAMETER": ("?" + "a" * 61) * (_N // 10) + "?a=" * _N + "?" * _N,
    "REFERENCE": " " * _N + "<" * _N + "<a" * _N + "{$" * _N,
}
"""For each pattern, text that begins to match at every place and never, or late, goes on to its end."""


def test_every_pattern_has_a_worst_case_here() -> None:
    assert {
        name for name, value in vars(secret_texts).items() if isinstance(value, re.Pattern)
    } == _WORST.keys()


@each_row("name", sorted(_WORST))
def test_worst_case_of_a_pattern_is_read_in_one_go(name: str) -> None:
    """Seconds are far from what it takes; where each letter is read again from each place, so are minutes."""
    pattern: re.Pattern[str] = vars(secret_texts)[name]
    began = time.process_time()
    pattern.subn("", _WORST[name])
    assert time.process_time() - began < 30


@each_row("part", ["-eyJ", "Bearer ", "://a:", "?a=", "&a", "<"])
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
