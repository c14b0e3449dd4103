"""JSON is compressed for who can read it so, and is the same then; what is small is left as it is."""

from __future__ import annotations

import gzip

from tests.support.service import GRAPH, service


async def test_json_is_compressed_for_who_can_read_it_and_is_the_same() -> None:
    async with service() as running, running.as_() as client:
        whole = f"/api/graphs/{GRAPH}/view"
        for path in (whole, f"/api/graphs/{GRAPH}/export"):
            plain = await client.get(path, headers={"Accept-Encoding": "identity"})
            packed = await client.get(path, headers={"Accept-Encoding": "br, gzip"})
            assert "content-encoding" not in plain.headers
            assert packed.headers["content-encoding"] == "gzip"
            assert "Accept-Encoding" in packed.headers["vary"]
            assert "content-length" not in packed.headers
            assert packed.json() == plain.json(), path
        small = await client.get("/api/graphs", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in small.headers
        assert int(small.headers["content-length"]) == len(small.content)
        texts = await client.get("/messages/en.json", headers={"Accept-Encoding": "gzip"})
        assert texts.json(), "compressed once, not twice"
        async with client.stream("GET", whole, headers={"Accept-Encoding": "gzip"}) as raw:
            received = b"".join([piece async for piece in raw.aiter_raw()])
        plain = await client.get(whole)
        assert gzip.decompress(received) == plain.content
        assert len(received) * 2 < len(plain.content)
