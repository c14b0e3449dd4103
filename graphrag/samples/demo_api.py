"""An HTTP API for the sample agents: messages, incidents, a catalogue and orders, in memory.

Faults on demand: `PUT /faults/orders {"status": 503, "times": 2, "delay_s": 0.5}` makes the next
two requests to `/orders` fail; `DELETE /faults` ends all. `GET /requests` shows what arrived last.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from socket import socket
from typing import Any, cast

import uvicorn
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from graphrag.asgi_server import served_on
from mock_data import load_json
from tools.http.scope import iso_time

DEFAULT_PORT = 8770  # in `base_url` of the sample documents

BLOCKED_PHONE = "+33600000000"
KNOWN_PHONE = "+33612345678"
MAX_KEPT = 500
MAX_BODY = 256_000
READY_IN_MS = 30 * 60_000

# services with their state, the items of the catalogue, and the session of the catalogue agent
_DATA = load_json("agents/demo_api.json")


class Fault(BaseModel):
    """A fault of the next `times` requests: they wait `delay_s` and fail with `status`.

    A `status` of 0 only waits.
    """

    model_config = ConfigDict(extra="forbid")

    status: int = Field(default=503, ge=0, le=599)
    delay_s: float = Field(default=0, ge=0, le=60)
    times: int = Field(default=1, ge=1, le=1000)


class DemoApi:
    """The API and its records: bounded, in memory, for one process."""

    def __init__(self, clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._clock = clock
        self._last_id = 0
        self.faults: dict[str, Fault] = {}
        self.requests: deque[dict[str, Any]] = deque(maxlen=MAX_KEPT)
        self.kept: dict[str, deque[dict[str, Any]]] = {
            kind: deque(maxlen=MAX_KEPT)
            for kind in ("messages", "incidents", "orders", "calls", "conversations")
        }
        self.kept["incidents"].append(dict(_DATA["incident"]))

    def app(self) -> Starlette:
        """Returns the ASGI application."""
        reads = {
            "/services/{name}": self._service,
            "/config": self._config,
            "/blocked": self._blocked,
            "/incidents": self._incidents,
            "/orders": self._orders,
        }
        routes = [
            Route(path, self._answering(find), methods=["GET"]) for path, find in reads.items()
        ]
        routes += [
            Route(f"/{kind}", self._answering(self._keep), methods=["POST", "PATCH"])
            for kind in self.kept
        ]
        routes += [
            Route("/availability", self._answering(self._available), methods=["POST"]),
            Route("/requests", self._seen, methods=["GET"]),
            Route("/faults", self._mend, methods=["DELETE"]),
            Route("/faults/{name}", self._break, methods=["PUT"]),
        ]
        return Starlette(routes=routes)

    def _answering(
        self, find: Callable[[Request, Any], tuple[int, Any]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            raw = await request.body()
            if len(raw) > MAX_BODY:
                return JSONResponse({"error": "too large"}, 413)
            body = _parsed(raw)
            self.requests.append(
                {
                    "method": request.method,
                    "path": request.url.path,
                    "query": request.url.query,
                    "key": request.headers.get("idempotency-key"),
                    "body": body,
                }
            )
            failed = await self._fault(request.url.path.split("/")[1])
            status, value = failed or find(request, body)
            return JSONResponse(value, status)

        return answer

    async def _fault(self, name: str) -> tuple[int, Any] | None:
        fault = self.faults.get(name)
        if fault is None:
            return None
        fault.times -= 1
        if fault.times == 0:
            del self.faults[name]
        await asyncio.sleep(fault.delay_s)
        return (fault.status, {"error": "a fault on demand"}) if fault.status else None

    async def _break(self, request: Request) -> Response:
        name = request.path_params["name"]
        try:
            fault = Fault.model_validate_json(await request.body() or b"{}")
        except ValidationError as error:
            return JSONResponse(
                {"error": error.errors(include_url=False, include_context=False)}, 422
            )
        if len(self.faults) < MAX_KEPT:
            self.faults[name] = fault
        return JSONResponse(fault.model_dump())

    async def _mend(self, _: Request) -> Response:
        self.faults.clear()
        return Response(status_code=204)

    async def _seen(self, _: Request) -> Response:
        return JSONResponse({"requests": list(self.requests)})

    def _service(self, request: Request, _: Any) -> tuple[int, Any]:
        name = request.path_params["name"]
        services = _DATA["services"]
        if name not in services:
            return 404, {"error": "no such service", "services": sorted(services)}
        return 200, {"service": name, **services[name]}

    def _config(self, request: Request, _: Any) -> tuple[int, Any]:
        is_customer = request.query_params.get("phone") == KNOWN_PHONE
        customer = {"id": "cus-1", "name": "Ada", "orders": 3} if is_customer else None
        return 200, {
            "systemPrompt": _DATA["prompt"],
            "tools": _DATA["tools"],
            "itemMap": _DATA["items"],
            "avgPrepTimeMin": 25,
            "customer": customer,
        }

    def _blocked(self, request: Request, _: Any) -> tuple[int, Any]:
        return 200, {"blocked": request.query_params.get("phone") == BLOCKED_PHONE}

    def _incidents(self, request: Request, _: Any) -> tuple[int, Any]:
        state = request.query_params.get("state")
        incidents = [item for item in self.kept["incidents"] if state in (None, item.get("state"))]
        return 200, {"incidents": incidents}

    def _orders(self, request: Request, _: Any) -> tuple[int, Any]:
        phone = request.query_params.get("phone")
        return 200, {
            "orders": [
                order for order in self.kept["orders"] if order.get("customerPhone") == phone
            ]
        }

    def _available(self, _: Request, __: Any) -> tuple[int, Any]:
        ready = iso_time(self._clock() + READY_IN_MS)
        return 200, {
            "available": True,
            "estimatedTimeISO": ready,
            "estimatedTime": ready[11:16],
            "deliveryFee": 2,
        }

    def _keep(self, request: Request, body: Any) -> tuple[int, Any]:
        """Stores a new record (POST) or changes the record with the given id (PATCH)."""
        if not isinstance(body, dict):
            return 422, {"error": "a JSON object is needed"}
        sent = cast(dict[str, Any], body)
        kind = request.url.path[1:]
        if request.method == "PATCH":
            for record in self.kept[kind]:
                if record["id"] == sent.get("id"):
                    record.update(sent)
                    return 200, record
            return 404, {"error": "no such id"}
        self._last_id += 1
        record = {"state": "open", **sent, "id": f"{kind.removesuffix('s')}-{self._last_id}"}
        self.kept[kind].append(record)
        return 201, {"id": record["id"]}


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except (ValueError, RecursionError):
        return None


@asynccontextmanager
async def demo_api_on(listening: socket) -> AsyncGenerator[DemoApi]:
    """Serves the API on a listening socket until the block ends; yields it."""
    api = DemoApi()
    config = uvicorn.Config(api.app(), lifespan="off", log_level="error", access_log=False)
    async with served_on(config, listening):
        yield api


def serve_demo_api(port: int = DEFAULT_PORT) -> None:
    """Serves the API on loopback until it is interrupted."""
    uvicorn.run(DemoApi().app(), host="127.0.0.1", port=port, log_level="warning")
