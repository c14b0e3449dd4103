"""A transport of `httpx2` that connects to addresses which the rules allow, and to no other."""

from __future__ import annotations

import httpx2

from tools.http.addresses import AddressRules


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """Looks each request's host up once, checks its addresses, and connects to the first of them.

    Raises, for a request: AddressRefused; OSError where the name cannot be looked up.
    """

    def __init__(self, rules: AddressRules) -> None:
        super().__init__(trust_env=False)
        self._rules = rules

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        address = (await self._rules.check(host, port))[0]
        request.extensions = {
            **request.extensions,
            "sni_hostname": host,
        }  # the certificate is the name's
        request.url = request.url.copy_with(host=address)
        return await super().handle_async_request(request)
