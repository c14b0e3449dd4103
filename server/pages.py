"""Serves the page: its HTML, scripts, styles, pictures and texts, and nothing else of this computer.

The page loads only what stands here: its policy forbids every other source, inline code included.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from graphrag.i18n import LANGUAGES, Language, page_texts

router = APIRouter(include_in_schema=False)

ROOT = Path(__file__).with_name("web")
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self)",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked again each time; unchanged files cost one short answer
}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,80}(?:/[a-z0-9][a-z0-9._-]{0,80}){0,4}")
"""No part of a name begins with a dot, so that none leads out of the folder."""


@router.api_route("/", methods=["GET", "HEAD"])
async def index(request: Request) -> Response:
    """Return the page; it names all its scripts, so that a browser reads them at once."""
    names = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("js/**/*.js"))
    links = "".join(f'<link rel="modulepreload" href="/web/{name}">\n' for name in names)
    page = (ROOT / "index.html").read_text(encoding="utf-8").replace("</head>", f"{links}</head>", 1)
    return _answer(request, page.encode(), KINDS[".html"])


@router.api_route("/web/{name:path}", methods=["GET", "HEAD"])
async def asset(request: Request, name: str) -> Response:
    """Return a part of the page."""
    return _file(request, name)


@router.api_route("/messages/{name}", methods=["GET", "HEAD"])
async def messages(request: Request, name: str) -> Response:
    """Return the page's texts in one language, as `en.json`."""
    language = next((language for language in LANGUAGES if name == f"{language}.json"), None)
    if language is None:
        raise HTTPException(404)
    return _answer(request, _texts(language), "application/json; charset=utf-8")


@cache
def _texts(language: Language) -> bytes:
    return json.dumps(page_texts(language), ensure_ascii=False).encode()


def _file(request: Request, name: str) -> Response:
    path = ROOT / name
    kind = KINDS.get(path.suffix)
    if kind is None or not _NAME.fullmatch(name) or not path.is_file():
        raise HTTPException(404)
    return _answer(request, path.read_bytes(), kind)


def _answer(request: Request, content: bytes, kind: str) -> Response:
    headers = {**HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}
    asked = request.headers.get("if-none-match", "")
    if headers["ETag"] in (tag.strip().removeprefix("W/") for tag in asked.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)
