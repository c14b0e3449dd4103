"""Serves `/docs`: the API's pages, by Swagger UI from the package `fastapi-offline`, under the page's policy.

Nothing of it is loaded from elsewhere; what programs read is at `/openapi.json`, `/api/ws-messages.json` and
`/llms.txt`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

import fastapi_offline
import orjson
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from server.api_examples import described_api
from server.llms_txt import llms_text
from server.page_bundle import PageFile, page_file
from server.pages import file_answer
from server.ws_catalogue import ws_description

router = APIRouter(include_in_schema=False)

_OURS = Path(__file__).with_name("api_page")
_SWAGGER = files(fastapi_offline) / "static"
_FILES = {
    "page.js": _OURS / "page.js",
    "page.css": _OURS / "page.css",
    "swagger-ui-bundle.js": _SWAGGER / "swagger-ui-bundle.js",
    "swagger-ui.css": _SWAGGER / "swagger-ui.css",
}


@router.api_route("/docs", methods=["GET", "HEAD"])
def api_docs(request: Request) -> Response:
    """Return the page with the descriptions of all endpoints and messages."""
    return file_answer(request, page_file((_OURS / "index.html").read_bytes(), ".html"))


@router.api_route("/docs/{name}", methods=["GET", "HEAD"])
def api_docs_file(request: Request, name: str) -> Response:
    """Return a script or a style of that page."""
    if name not in _FILES:
        raise HTTPException(404)
    return file_answer(request, _file(name))


@router.api_route("/openapi.json", methods=["GET", "HEAD"])
def openapi(request: Request) -> Response:
    """Return the description of all endpoints; made in a thread, for it takes half a second."""
    return file_answer(request, _description(request.app))


@lru_cache(maxsize=1)
def _description(app: FastAPI) -> PageFile:
    return page_file(orjson.dumps(described_api(app)), ".json")


@router.api_route("/llms.txt", methods=["GET", "HEAD"])
def llms(request: Request) -> Response:
    """Return what a model reads first of the service."""
    return file_answer(request, _for_models(request.app))


@lru_cache(maxsize=1)
def _for_models(app: FastAPI) -> PageFile:
    return page_file(llms_text(described_api(app), app.routes).encode(), ".txt")


@router.api_route("/api/ws-messages.json", methods=["GET", "HEAD"])
def ws_messages(request: Request) -> Response:
    """Return the JSON Schema of all messages of the WebSocket."""
    return file_answer(request, _messages())


@cache
def _messages() -> PageFile:
    return page_file(orjson.dumps(ws_description()), ".json")


@cache
def _file(name: str) -> PageFile:
    return page_file(_FILES[name].read_bytes(), Path(name).suffix)
