"""Serves the page: its HTML, scripts, styles, pictures and texts, and no other files of this
computer.

The page loads only these files: its policy forbids every other source, inline code, and inline
styles but those of the first paint, which it names by their hash. Browsers
get few joined, compressed files that never change under their names; `/?plain` loads the modules
one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from graphrag.samples.sample_graph import sample_workflow
from server.page_bundle import (
    KINDS,
    ROOT,
    PageFile,
    first_style,
    hash_source,
    joined_page,
    page_file,
    with_languages,
)
from server.request_language import language_of
from server.service_icons import icons_of

router = APIRouter(include_in_schema=False)


def _policy(styles: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            f"style-src {styles}",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


POLICY = _policy("'self'")
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self)",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked again each time; unchanged files cost one short answer
    "Vary": "Accept-Encoding, Accept-Language",
}
UNCHANGING = {"Cache-Control": "public, max-age=31536000, immutable"}
# No part of a name starts with a dot, so no name leads out of the folder.
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,80}(?:/[a-z0-9][a-z0-9._-]{0,80}){0,4}")


@router.api_route("/", methods=["GET", "HEAD"])
def index(request: Request) -> Response:
    """Returns the page in the language that the browser prefers."""
    if "plain" in request.query_params:
        plain = (ROOT / "index.html").read_text(encoding="utf-8")
        page = with_languages(plain, language_of(request))
        return file_answer(request, page_file(page.encode(), ".html"))
    policy = _policy(f"'self' {hash_source(first_style())}")
    headers = {"Content-Security-Policy": policy}
    return file_answer(request, joined_page()[1][f"{language_of(request)}.html"], headers)


@router.api_route("/web/built/{build}/{name}", methods=["GET", "HEAD"])
def built(request: Request, build: str, name: str) -> Response:
    """Returns a joined file of the page; files of other versions are gone."""
    current, files = joined_page()
    if build != current or name not in files:
        raise HTTPException(404)
    return file_answer(request, files[name], UNCHANGING)


@router.api_route("/web/icons", methods=["GET", "HEAD"])
def icons(request: Request, names: str) -> Response:
    """Returns the outlines of the icons of services, by their names with commas between."""
    found = icons_of(names.split(","))
    content = orjson.dumps({"icons": found})
    return file_answer(request, page_file(content, ".json"), {"Cache-Control": "max-age=86400"})


@router.api_route("/web/sample.json", methods=["GET", "HEAD"])
def sample(request: Request) -> Response:
    """Returns a workflow that the page imports where there is no graph yet."""
    return file_answer(request, page_file(sample_workflow(), ".json"))


@router.api_route("/web/{name:path}", methods=["GET", "HEAD"])
def asset(request: Request, name: str) -> Response:
    """Returns a file of the page, not joined."""
    return _file(request, name)


@router.api_route("/messages/{name}", methods=["GET", "HEAD"])
def messages(request: Request, name: str) -> Response:
    """Returns the page's texts in one language, as `en.json`."""
    file = joined_page()[1].get(name)
    if file is None or not name.endswith(".json"):
        raise HTTPException(404)
    return file_answer(request, file)


def _file(request: Request, name: str) -> Response:
    path = ROOT / name
    if path.suffix not in KINDS or not _NAME.fullmatch(name) or not path.is_file():
        raise HTTPException(404)
    return file_answer(request, page_file(path.read_bytes(), path.suffix))


def file_answer(
    request: Request, file: PageFile, more: Mapping[str, str] = MappingProxyType({})
) -> Response:
    """Returns a file, compressed if the client accepts that, or 304 if the client has it."""
    headers = {**HEADERS, **more, "ETag": file.etag}
    asked = request.headers.get("if-none-match", "")
    if file.etag in (tag.strip().removeprefix("W/") for tag in asked.split(",")):
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, media_type=file.kind, headers=headers)
    return Response(
        file.packed, media_type=file.kind, headers={**headers, "Content-Encoding": "gzip"}
    )
