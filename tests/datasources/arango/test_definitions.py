"""Indexes and View of our names that are other things: a check tells, a set-up puts them right, and waits."""

from __future__ import annotations

from typing import Any

import pytest

from datasources.arango import ArangoDatabase, layout, parse_address
from datasources.arango.names import NODES, VIEW
from tests.datasources.arango.kit import TIMEOUT_S, TOO_LONG_MS
from tests.datasources.arango.test_setup import Place, place
from tests.support.arango import ArangoServer

__all__ = ["place"]
WANTED = layout.view_properties()["links"][NODES]
STORED: dict[str, Any] = {
    "analyzers": ["identity"],
    "fields": {"graphKey": {}, "type": {}, "nodiusText": {"fields": {"words": {}, "nameWords": {}}}},
    "includeAllFields": False,
    "storeValues": "none",
    "trackListPositions": False,
}
"""As a server writes the link down: it leaves out analyzers that are those around a field."""


async def found(place: Place) -> tuple[str, str]:
    async with place.opened(prepared=False) as database:
        finding = {finding.name: finding for finding in await database.check()}["set-up"]
    return finding.status, finding.detail


@pytest.mark.slow
async def test_an_index_of_our_name_with_other_fields_is_made_again(place: Place) -> None:
    await place.set_up()
    place.call("DELETE", f"/_api/index/{NODES}/ix_rag_key")
    other = {"type": "persistent", "name": "ix_rag_key", "fields": ["graphKey"]}
    place.call("POST", f"/_api/index?collection={NODES}", other)
    assert await found(place) == ("error", f"missing: the index ix_rag_key of {NODES}")
    assert await place.set_up() == [f"made the index ix_rag_key of {NODES}"]
    assert (await found(place))[0] == "ok"
    assert await place.set_up() == []


@pytest.mark.parametrize(
    "link",
    [
        {"fields": {"graphKey": {}, "type": {}}},
        {"fields": {**STORED["fields"], "nodiusText": {"fields": {"words": {}}}}},
        {**STORED, "analyzers": ["text_en"]},
    ],
)
@pytest.mark.slow
async def test_a_view_that_searches_other_fields_is_linked_again(place: Place, link: dict[str, Any]) -> None:
    await place.set_up()
    place.call("PUT", f"/_api/view/{VIEW}/properties", {"links": {NODES: link}})
    assert await found(place) == ("error", f"missing: the link of the View {VIEW} with {NODES}")
    assert await place.set_up() == [f"made the link of the View {VIEW} with {NODES}"]
    assert (await found(place))[0] == "ok"


def test_a_link_is_known_as_a_server_writes_it_down() -> None:
    assert layout.is_link_like(STORED, WANTED)
    assert layout.is_link_like(WANTED, WANTED)
    assert not layout.is_link_like(None, WANTED)
    words = {"analyzers": ["text_en"], "fields": STORED["fields"]["nodiusText"]["fields"]}
    assert not layout.is_link_like({**STORED, "fields": {**STORED["fields"], "nodiusText": words}}, WANTED)


async def test_an_index_that_takes_long_to_build_is_waited_for(
    arango_faults: ArangoServer, place: Place
) -> None:
    async with ArangoDatabase(
        parse_address(f"{place.address}?timeout={TIMEOUT_S}"), prepared=False
    ) as database:
        arango_faults.inject("_api/index", f"delay:{TOO_LONG_MS}")
        arango_faults.inject("_api/view", f"delay:{TOO_LONG_MS}")
        assert f"made the View {VIEW}" in await database.set_up()
