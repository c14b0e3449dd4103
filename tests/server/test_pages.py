"""The page's files: what is served, by which policy, and that nothing else is."""

from __future__ import annotations

import re

from server.pages import KINDS, ROOT
from tests.support.service import service

FILES = sorted(path for path in ROOT.rglob("*") if path.is_file())
IMPORT = re.compile(r"""(?:from|import)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")


async def test_the_page_is_served_to_anybody_with_a_policy_that_forbids_all_else() -> None:
    async with service() as running, running.client() as client:
        answer = await client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_every_file_of_the_page_is_served_as_what_it_is() -> None:
    async with service() as running, running.client() as client:
        for path in FILES:
            answer = await client.get(f"/web/{path.relative_to(ROOT).as_posix()}")
            assert answer.status_code == 200, path
            assert answer.headers["content-type"] == KINDS[path.suffix]
            assert answer.content == path.read_bytes()
            assert answer.headers["content-security-policy"]


async def test_an_unchanged_file_is_not_sent_again() -> None:
    async with service() as running, running.client() as client:
        first = await client.get("/web/js/app.js")
        again = await client.get(
            "/web/js/app.js", headers={"If-None-Match": f'"x", W/{first.headers["etag"]}'}
        )
        head = await client.head("/web/js/app.js")
    assert again.status_code == 304
    assert again.content == b""
    assert head.status_code == 200
    assert head.content == b""


NOT_SERVED = (
    "/web/",
    "/web/js",
    "/web/nothing.js",
    "/web/../pages.py",
    "/web/%2e%2e/pages.py",
    "/web/..%2fpages.py",
    "/web/js/%2e%2e/%2e%2e/pages.py",
    "/web//etc/passwd",
    "/web/%2fetc%2fpasswd",
    "/web/js/app.js%00.css",
    "/web/js\\app.js",
    "/web/.hidden.js",
    "/web/" + "a/" * 4000 + "a.js",
)


async def test_nothing_else_is_served() -> None:
    async with service() as running, running.client() as client:
        for path in NOT_SERVED:
            answer = await client.get(path)
            assert answer.status_code == 404, path
            assert answer.json()["error"]["code"] == "not_found"


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    index = (ROOT / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", index)
    for path in FILES:
        text = path.read_text()
        assert "innerHTML" not in text, path
        assert "insertAdjacentHTML" not in text, path
        assert not re.search(r"\beval\(|new Function\(|document\.write", text), path
        if path.suffix in (".css", ".html"):
            assert not re.search(r"url\(|@import|https?://", text), path


def test_every_module_that_is_imported_is_there() -> None:
    for path in FILES:
        if path.suffix == ".js":
            for name in IMPORT.findall(path.read_text()):
                assert (path.parent / name).resolve().is_file(), f"{path.name} imports {name}"


def test_both_languages_have_the_same_texts_with_the_same_places() -> None:
    for english in (ROOT / "js" / "messages").glob("*en.js"):
        french = english.with_name(english.name.replace("en.js", "fr.js"))
        assert _texts(english.read_text()) == _texts(french.read_text()), french.name


def _texts(source: str) -> dict[str, set[str]]:
    entries = re.findall(r'^\s*"?([\w.:]+)"?:\s*(.+?),?$', source, re.MULTILINE)
    return {key: set(re.findall(r"\{(\w+)\}", text)) for key, text in entries}


async def test_the_page_names_every_script_before_it_is_needed() -> None:
    async with service() as running, running.client() as client:
        page = (await client.get("/")).text
        again = await client.get("/", headers={"if-none-match": (await client.get("/")).headers["etag"]})
    named = set(re.findall(r'<link rel="modulepreload" href="/web/([^"]+)">', page))
    assert named == {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.js")}
    assert again.status_code == 304
