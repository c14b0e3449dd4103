"""Client links in answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from datasources.base import GraphDataSource
from datasources.mock import open_nba
from graphrag.agent.reply import KINDS, LIMIT, LinkFilter
from tests.support.each_row import each_row

GRAPH = "testgraph001"


@pytest_asyncio.fixture
async def source() -> AsyncGenerator[GraphDataSource]:
    async with open_nba("default") as database:
        yield database.source("default")


async def write_guard(source: GraphDataSource, pieces: Iterable[str]) -> str:
    links = LinkFilter(source, GRAPH)
    shown = [await links.feed(piece) for piece in pieces]
    return "".join(shown) + await links.feed("", final=True)


@each_row(
    "text, shown",
    ("See {{node:fetch-api}}.", "See {{node:fetch-api}}."),
    ("See {{ node : fetch-api }}.", "See {{node:fetch-api}}."),
    ("See {{node:nowhere}}.", "See nowhere."),
    ("{{select:fetch-api,nowhere,root}}", "{{select:fetch-api,root}}"),
    ("{{highlight:no,never}}", "no, never"),
    ("{{fitArea:0,-10,400.5,300}}", "{{fitArea:0,-10,400.5,300}}"),
    ("{{fitArea:0,0,nan,1e999}}", "0,0,nan,1e999"),
    ("{{sheet:0}} {{sheet:77}}", "{{sheet:0}} 77"),
    ("{{graph:testgraph001}} {{graph:secret}}", "{{graph:testgraph001}} secret"),
    ("{{html:page}}", "page"),
    ("{{link:https://example.org/a?b=1|docs}}", "{{link:https://example.org/a?b=1|docs}}"),
    ("{{link:javascript:alert(1)|docs}}", "docs"),
    ("{{link:data:text/html,x}}", "data:text/html,x"),
    ("{{node:}}", "?"),
    ("{{ $json.id }} and {{x}} {{unknown:y}}", "{{ $json.id }} and {{x}} {{unknown:y}}"),
    ("{{node:fetch-api", "node:fetch-api"),
    ("{{node:fetch-api\n}}", "node:fetch-api\n}}"),
    ("{{{node:fetch-api}}}", "{{{node:fetch-api}}}"),
    ("a { b } {", "a { b } {"),
    ("{{", "{{"),
)
async def test_a_link_goes_out_only_with_a_target(source: GraphDataSource, text: str, shown: str) -> None:
    assert await write_guard(source, [text]) == shown
    assert await write_guard(source, text) == shown


async def test_a_type_is_linked_by_its_key_whichever_name_was_written(source: GraphDataSource) -> None:
    config = (await source.get_node_configs())[0]
    assert (
        await write_guard(source, [f"{{{{nodeConfig:{config.type}}}}}"]) == f"{{{{nodeConfig:{config.key}}}}}"
    )
    assert await write_guard(source, ["{{nodeConfig:no-such-type}}"]) == "no-such-type"


async def test_text_is_not_held_back_longer_than_a_link_may_be(source: GraphDataSource) -> None:
    links = LinkFilter(source, GRAPH)
    assert await links.feed("Hello { there {{ $x }} {{no") == "Hello { there {{ $x }} "
    assert await links.feed("de:fetch-api}} ok") == "{{node:fetch-api}} ok"
    assert await links.feed("{{node:" + "x" * 100) == ""
    assert len(await links.feed("x" * LIMIT)) > LIMIT


@each_row(
    "text",
    "{{node:{{node:evil}}}}",
    "{{{{link:javascript:x|node:evil}}}}",
    "{{{node:}}{node:evil}}",
    "{{node:{node:evil}}",
    "{{no{{node:evil}}de:evil}}",
    "{{select:{{,node:evil}}",
    "{{link:https://a.example|{{node:evil}}",
)
async def test_links_nested_in_links_make_no_link_to_nowhere(source: GraphDataSource, text: str) -> None:
    shown = await write_guard(source, [text])
    assert "{{node:evil}}" not in shown
    assert shown == await write_guard(source, text)


pieces = st.lists(
    st.one_of(
        st.sampled_from(["{{", "}}", "{", "}", ":", ",", "|", "\n", " ", "fetch-api", "evil", "https://a.b"]),
        st.sampled_from([f"{{{{{kind}:" for kind in KINDS]),
        st.text(max_size=4),
    ),
    max_size=12,
)


@given(pieces)
def test_however_it_is_cut_the_same_is_shown_and_every_node_link_exists(written: list[str]) -> None:
    async def check() -> None:
        async with open_nba("default") as database:
            source = database.source("default")
            shown = await write_guard(source, written)
            assert shown == await write_guard(source, "".join(written))
            assert shown == await write_guard(source, ["".join(written)])
            for after in shown.split("{{node:")[1:]:
                assert after.startswith("fetch-api}}")

    asyncio.run(check())
