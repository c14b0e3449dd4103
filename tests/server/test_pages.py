"""The page's files: what is served, by which policy, and that nothing else is."""

import gzip
import html
import json
import re
from pathlib import Path

import pytest

from graphrag.i18n import LANGUAGES, Language, page_texts
from server.mcp.app_resource import ENTRY
from server.page_bundle import (
    FIRST_FILES,
    KINDS,
    ROOT,
    PageNotJoined,
    hash_source,
    joined_page,
    joined_scripts,
)
from tests.support.service import service

FILES = sorted(path for path in ROOT.rglob("*") if path.is_file() and path.suffix != ".md")
COMMENT = re.compile(r"(?m)(?:^|\s)//.*$")
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
SENTENCE = re.compile(r"[A-Za-zÀ-ÿ’']+ [a-zà-ÿ’']+ [a-zà-ÿ’']+")
"""Three words in a row, the first of which may be capital: no class names, paths or keys."""
IMPORT = re.compile(r"""(?:from|import)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")


async def test_the_page_is_served_to_anybody_with_a_policy_that_forbids_all_else() -> None:
    async with service() as running, running.client() as client:
        answer = await client.get("/")
    assert answer.status_code == 200
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(
        part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": f"'self' {hash_source(style)}",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("address", ["/", "/?plain"])
async def test_the_page_names_the_languages_that_there_are_each_in_its_own_words(
    address: str,
) -> None:
    async with service() as running, running.client() as client:
        page = (await client.get(address)).text
    named = re.search(r'<html lang="en"[^>]* data-languages="([^"]*)"', page)
    assert named is not None
    assert json.loads(html.unescape(named[1])) == {
        "en": "Language: English",
        "fr": "Langue : français",
    }


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


@pytest.mark.parametrize("language", [*LANGUAGES])
async def test_the_texts_of_the_page_are_served_once_those_of_the_service_not(
    language: Language,
) -> None:
    async with service() as running, running.client() as client:
        first = await client.get(f"/messages/{language}.json")
        again = await client.get(
            f"/messages/{language}.json", headers={"If-None-Match": first.headers["etag"]}
        )
        other = await client.get("/messages/xx.json")
    assert first.json() == page_texts(language)
    assert "GraphNotFound" not in first.json()
    assert (again.status_code, other.status_code) == (304, 404)


def test_the_page_names_each_of_its_texts_and_keeps_no_sentence_of_its_own() -> None:
    source = "\n".join(COMMENT.sub("", path.read_text()) for path in FILES if path.suffix == ".js")
    known = set(page_texts("en"))
    named = set(re.findall(r"""["'`]([\w.]+)["'`]""", source))
    made_up = set(re.findall(r"`([a-z_]+\.[\w.]*)\$\{", source))
    asked = set(re.findall(r"""\bt\(["'`]([\w.]+)["'`]""", source))
    assert asked <= known
    unused = {key for key in known - named if not any(key.startswith(start) for start in made_up)}
    assert unused == set()
    assert [text for text in TEXT.findall(source) if SENTENCE.search(text)] == [
        "noopener noreferrer nofollow"
    ]


async def test_a_browser_gets_few_files_compressed_that_it_keeps_for_ever() -> None:
    names = re.compile(r'(?:href|src)="(/web/[^"]+)"')
    async with service() as running, running.client() as client:
        page = await client.get("/", headers={"Accept-Language": "fr-CH"})
        other = await client.get("/", headers={"Accept-Language": "en"})
        again = await client.get("/", headers={"if-none-match": other.headers["etag"]})
        files = {
            name: await client.get(name)
            for name in {*names.findall(page.text), *names.findall(other.text)}
        }
        base = next(iter(files)).rsplit("/", 1)[0]
        late = [await client.get(f"{base}/{name}") for name in ("panels.js", "later.js")]
        plain = await client.get(f"{base}/app.js", headers={"Accept-Encoding": "identity"})
        gone = await client.get(base.replace(base[-16:], "0" * 16) + "/app.js")
    assert {name.removeprefix(f"{base}/") for name in files} == {
        "early.js",
        "app.js",
        "page.css",
        "en.first.json",
        "fr.first.json",
        "icon.svg",
    }
    for answer in (*files.values(), *late):
        assert answer.status_code == 200
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["etag"]
    assert plain.content == files[f"{base}/app.js"].content
    assert "content-encoding" not in plain.headers
    assert '<html lang="fr"' in page.text
    assert page.headers["cache-control"] == "no-cache"
    assert (again.status_code, gone.status_code) == (304, 404)
    whole = [answer.content for answer in (*files.values(), *late[:1], page)]
    assert sum(len(gzip.compress(content, 9)) for content in whole) < 132_000, (
        "one language more than is loaded"
    )


@pytest.mark.parametrize("language", [*LANGUAGES])
async def test_the_texts_of_the_first_view_and_those_read_later_are_all_texts_once(
    language: Language,
) -> None:
    _, files = joined_page()
    whole, first, later = (
        json.loads(files[f"{language}{part}.json"].content) for part in ("", ".first", ".later")
    )
    assert not set(first) & set(later)
    assert {**first, **later} == whole == page_texts(language)
    scripts = "".join(files[name].content.decode() for name in FIRST_FILES)
    asked = set(re.findall(r"""\bt\(["'`]([\w.]+)["'`]""", scripts))
    assert asked
    assert asked <= set(first)


def test_the_joined_scripts_hold_each_module_once_after_those_it_imports() -> None:
    joined = joined_scripts()
    order = [
        name for text in joined.values() for name in re.findall(r'(?m)^\$m\["([^"]+)"\] = ', text)
    ]
    scripts = {path.relative_to(ROOT / "js").as_posix() for path in ROOT.rglob("*.js")}
    assert sorted(order) == sorted(set(order))
    sound = {
        f"calls/{name}.js" for name in ("sound-worklet", "frames", "mu-law")
    }  # in a thread of its own
    view = joined_scripts(files={"proposal": (ENTRY,)})["proposal"]  # a document of its own
    shown = re.findall(r'(?m)^\$m\["([^"]+)"\] = ', view)
    assert len(shown) == len(set(shown))
    assert scripts - set(order) - set(shown) == sound, "reached by no script that is joined"
    for text, order in [*((text, order) for text in joined.values()), (view, shown)]:
        for module, body in re.findall(
            r'(?ms)^\$m\["([^"]+)"\] = \(\(\) => \{\n(.*?)^\}\)\(\);$', text
        ):
            for needed in re.findall(r'(?m)^const .* = \$m\["([^"]+)"\];$', body):
                assert order.index(needed) < order.index(module)


@pytest.mark.parametrize(
    "text",
    [
        'export { a } from "./b.js";',
        "export default 1;",
        'import b from "./b.js";',
        "const a = import.meta.url;",
        "const a = import(name);",
        'import { b } from "./a.js";',
    ],
)
def test_a_module_that_cannot_be_joined_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.js").write_text(f"{text}\n")
    (tmp_path / "b.js").write_text("export const b = 1;\n")
    with pytest.raises(PageNotJoined, match=r"a\.js"):
        joined_scripts(tmp_path, {"app.js": ("a.js",)})


async def test_icons_of_services_are_served_by_their_names_and_other_names() -> None:
    async with service() as running, running.client() as client:
        answer = await client.get("/web/icons", params={"names": "telegram,postgres,../x,,none"})
        many = ",".join([*(f"none{i}" for i in range(300)), "telegram"])
        cut = await client.get("/web/icons", params={"names": many})
    icons = answer.json()["icons"]
    assert set(icons) == {"telegram", "postgres"}
    assert all(path.startswith(("M", "m")) for path in icons.values())
    assert cut.json() == {"icons": {}}
