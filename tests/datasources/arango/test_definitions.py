"""A View that a crash left without its link is completed, and what takes long to build is waited for."""

import pytest

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.layout import NODES, VIEW
from tests.datasources.arango.kit import TIMEOUT_S, TOO_LONG_MS
from tests.datasources.arango.test_setup import Place, place
from tests.support.arango import ArangoServer

__all__ = ["place"]


async def found(place: Place) -> tuple[str, str]:
    async with place.opened(prepared=False) as database:
        finding = {finding.name: finding for finding in await database.check()}["set-up"]
    return finding.status, finding.detail


@pytest.mark.slow
async def test_a_view_without_its_link_gets_it(place: Place) -> None:
    await place.set_up()
    place.call("PUT", f"/_api/view/{VIEW}/properties", {"links": {}})
    assert await found(place) == ("error", f"missing: the link of the View {VIEW} with {NODES}")
    assert await place.set_up() == [f"made the link of the View {VIEW} with {NODES}"]
    assert (await found(place))[0] == "ok"


@pytest.mark.parametrize("path", ["_api/index", pytest.param("_api/view", marks=pytest.mark.slow)])
async def test_an_index_that_takes_long_to_build_is_waited_for(
    arango_faults: ArangoServer, place: Place, path: str
) -> None:
    async with ArangoDatabase(
        parse_address(f"{place.address}?timeout={TIMEOUT_S}"), prepared=False
    ) as database:
        arango_faults.inject(path, f"delay:{TOO_LONG_MS}")
        assert f"made the View {VIEW}" in await database.set_up()
