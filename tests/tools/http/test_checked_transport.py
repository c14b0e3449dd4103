"""A client library's requests go to addresses that were checked, whatever a name leads to the next time."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.loopback_api import loopback_api
from tests.tools.http.test_fetch import LyingNames
from tools.http.addresses import AddressRefused, AddressRules
from tools.http.checked_transport import CheckedTransport


async def test_each_request_goes_to_an_address_that_was_checked_for_its_name() -> None:
    async with loopback_api() as api:
        names = LyingNames(["127.0.0.1"], ["10.0.0.9"])
        rules = AddressRules(allow=(f"127.0.0.1:{api.port}",), resolver=names)
        async with httpx2.AsyncClient(transport=CheckedTransport(rules), trust_env=False) as client:
            await client.get(f"http://rebound.example:{api.port}/first")
            assert api.arrived[0].headers["host"] == f"rebound.example:{api.port}"
            with pytest.raises(AddressRefused):
                await client.get(f"http://rebound.example:{api.port}/second")
        assert [each.line for each in api.arrived] == ["GET /first"]
