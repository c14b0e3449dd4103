"""A transport for `httpx2` that connects only to addresses allowed by the rules."""

from __future__ import annotations

import httpx2

from tools.http.addresses import AddressRules


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """Resolves the host of each request once, checks its addresses and connects to the first.

    Requests raise AddressRefused, or OSError if the name cannot be resolved.
    """

    def __init__(self, rules: AddressRules) -> None:
        super().__init__(trust_env=False)
        self._rules = rules

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        address = (await self._rules.check(host, port))[0]
        # The certificate is issued for the name, not for the address.
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=address)
        return await super().handle_async_request(request)
