"""The view of a proposal for display in other programs (MCP Apps): `ui://nodius/proposal`.

One HTML document, joined from the page's own modules. It loads, stores and decides nothing: it
draws the result of `proposal_view`, and links to the page.

Source: MCP Apps, specification 2026-01-26 (io.modelcontextprotocol/ui).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Final

from graphrag.i18n import LANGUAGES, Language, page_texts
from server.page_bundle import ROOT, hash_source, joined_scripts, with_languages

EXTENSION: Final = "io.modelcontextprotocol/ui"
URI: Final = "ui://nodius/proposal"
MIME_TYPE: Final = "text/html;profile=mcp-app"
# Key of the data of the view in a result's `_meta`, which models do not read.
RESULT_META: Final = "nodius/view"
ENTRY: Final = "host/proposal.js"
STYLES: Final = ("first", "base", "canvas", "review", "proposal")
_KEY = re.compile(r'"([a-z_]+(?:\.[\w-]+)+)"')
_KEY_BEGINNING = re.compile(r"`([a-z_]+\.(?:[a-z_]+\.)*)\$\{")


def tool_ui(name: str) -> dict[str, Any] | None:
    """Returns the `_meta` of a tool whose result the view shows, None for others."""
    return {"ui": {"resourceUri": URI}} if name.startswith("propose_") else None


def resource_meta() -> dict[str, Any]:
    """Returns the `_meta` of the resource: it may request or load no address, and use no device."""
    csp: dict[str, list[str]] = {"connectDomains": [], "resourceDomains": [], "frameDomains": []}
    return {"ui": {"csp": csp, "permissions": {}, "prefersBorder": False}}


def app_html() -> str:
    """Returns the document, joined again when one of its files was changed."""
    files = (path for path in ROOT.rglob("*") if path.suffix in (".js", ".css"))
    return _joined(tuple(sorted((path.as_posix(), path.stat().st_mtime_ns) for path in files)))


@lru_cache(maxsize=1)
def _joined(_: tuple[tuple[str, int], ...]) -> str:
    script = joined_scripts(files={"proposal": (ENTRY,)})["proposal"].removesuffix(
        "export { $m };\n"
    )
    style = "".join((ROOT / "css" / f"{name}.css").read_text(encoding="utf-8") for name in STYLES)
    texts = {
        "version": version("nodius-graphrag"),
        "texts": {code: _texts(script, code) for code in LANGUAGES},
    }
    for part in (script, style):
        assert "</s" not in part, "a part would end its element"
    sources = f"script-src {hash_source(script)}; style-src {hash_source(style)}"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    data = json.dumps(texts, ensure_ascii=False).replace("<", "\\u003c")
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>Nodius</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n"
        '<main id="proposal"></main>\n'
        f'<script type="application/json" id="texts">{data}</script>\n'
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    )
    return with_languages(page, "en")


def _texts(script: str, language: Language) -> dict[str, Any]:
    """Returns the texts whose keys the script names, in full or by their prefix."""
    keys = set(_KEY.findall(script))
    beginnings = tuple(set(_KEY_BEGINNING.findall(script)))
    return {
        key: value
        for key, value in page_texts(language).items()
        if key in keys or key.startswith(beginnings)
    }
