"""A transport for `httpx2` that connects only to addresses allowed by the rules."""

from __future__ import annotations

import ssl

import httpx2

from tools.http.addresses import AddressRules

MAX_ADDRESSES = 4


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """Resolves the host of each request once, checks its addresses and connects to the first
    that answers: a name such as `localhost` may have one on which nothing listens.

    Requests raise AddressRefused, or OSError if the name cannot be resolved.
    """

    def __init__(self, rules: AddressRules, *, ssl_context: ssl.SSLContext | None = None) -> None:
        super().__init__(trust_env=False, verify=ssl_context or True)
        self._rules = rules

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        addresses = (await self._rules.check(host, port))[:MAX_ADDRESSES]
        # The certificate is issued for the name, not for the address.
        request.extensions = {**request.extensions, "sni_hostname": host}
        for address in addresses[:-1]:
            request.url = request.url.copy_with(host=address)
            try:
                return await super().handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        request.url = request.url.copy_with(host=addresses[-1])
        return await super().handle_async_request(request)
