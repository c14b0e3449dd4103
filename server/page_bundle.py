"""Joins the page's modules, styles and texts into few files, compressed and named by a hash of
their content. The styles of the first paint stand in the HTML itself.

The modules stay plain JavaScript without a build step. In a joined file each module is a function
that returns its exports, after the modules that it imports. Modules that a script loads later
(`import("./chat/index.js")`) are in a file of their own. Only the forms of import and export that
the page uses are supported; others raise.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from graphrag.i18n import LANGUAGES, Language, page_texts, text

ROOT = Path(__file__).with_name("web")
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
# The joined files and their entry modules. A module that several need is in the first file.
FILES = {
    "early.js": ("early.js",),
    "app.js": ("app.js",),
    "panels.js": (
        *("chat/index.js", "review/news.js", "automations/news.js"),
        *("agents/known.js", "connections/known.js"),
    ),
    "reading.js": ("canvas/reading.js",),
    "editing.js": ("canvas/editing.js",),
    "review.js": ("review/index.js", "chat/proposals.js"),
}
# Modules that scripts load on first use and no other file contains.
LATER = "later.js"
# The files of the first view. Texts that only other files name are read with the first of those.
FIRST_FILES = ("early.js", "app.js", "panels.js", "reading.js")

_IMPORT = re.compile(r'^import (?:\* as (\w+)|\{([^}]*)\}) from "(\.[^"]+)";$', re.MULTILINE)
_LATER = re.compile(r'\bimport\("(\.[^"]+)"\)')
_EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$|^.*\bimport(?:\.meta|\().*$", re.MULTILINE)
_TEXT_KEY = re.compile(r"""["'`]([\w.]+)["'`]""")
_TEXT_KEY_BEGINNING = re.compile(r"`([a-z_]+\.[\w.]*)\$\{")
# Comments, and indentation. No text of the page spans several lines. A comment with a quote stays
# at the end of a line: it could be a part of a text.
_LEFT_OUT = re.compile(
    r"""^[ \t]*//.*\n|^[ \t]+|(?<=[;,{}()\[\]]) // (?:[^"'`\n]|(?<=[a-z])'(?=[a-z]))*$""",
    re.MULTILINE,
)
_LEFT_OUT_OF_STYLES = re.compile(r"/\*.*?\*/\s*|^\s+", re.MULTILINE | re.DOTALL)
# Spaces that styles do not need: around braces, after the signs of a declaration.
_AROUND_SIGNS = re.compile(r"\s*([{}])\s*|([;,]|(?<=[\w-]):)\s+")
_STYLE = re.compile(r'<link rel="stylesheet" href="/web/(css/[^"]+)">\n')
# The styles of the first paint; the page's other styles are read after its first elements.
FIRST_STYLE = "css/first.css"


class PageNotJoined(ValueError):
    """Raised for a module with an import or export of a form that is not known, or modules
    in a circle.
    """


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent, and compressed."""

    content: bytes
    packed: bytes
    kind: str
    etag: str


def page_file(content: bytes, suffix: str) -> PageFile:
    digest = hashlib.sha256(content).hexdigest()[:32]
    return PageFile(content, gzip.compress(content, 9, mtime=0), KINDS[suffix], f'"{digest}"')


def joined_page() -> tuple[str, Mapping[str, PageFile]]:
    """Returns the hash of all files, and the files by name; joined again when one of them was
    changed.
    """
    paths = (path for path in ROOT.rglob("*") if path.suffix in KINDS)
    return _joined(tuple(sorted((path.as_posix(), path.stat().st_mtime_ns) for path in paths)))


@lru_cache(maxsize=1)
def _joined(_: tuple[tuple[str, int], ...]) -> tuple[str, Mapping[str, PageFile]]:
    index = (ROOT / "index.html").read_text(encoding="utf-8")
    files = joined_scripts()
    index = index.replace(_link(FIRST_STYLE), f"<style>{first_style()}</style>\n")
    files["page.css"] = "".join(_style(name) for name in _STYLE.findall(index))
    files["icon.svg"] = (ROOT / "icon.svg").read_text(encoding="utf-8")
    for code in LANGUAGES:
        files |= _texts(code, "".join(files[name] for name in FIRST_FILES))
    build = hashlib.sha256("\0".join(files.values()).encode()).hexdigest()[:16]
    files |= {f"{code}.html": _index(index, code, f"/web/built/{build}") for code in LANGUAGES}
    return build, {
        name: page_file(content.encode(), Path(name).suffix) for name, content in files.items()
    }


def first_style() -> str:
    """Returns the styles of the first paint as they stand in the page's HTML."""
    return _style(FIRST_STYLE)


def _style(name: str) -> str:
    text = _LEFT_OUT_OF_STYLES.sub("", (ROOT / name).read_text(encoding="utf-8"))
    return _AROUND_SIGNS.sub(r"\1\2", text)


def hash_source(text: str) -> str:
    """Returns what a content security policy calls an element in line with this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _link(name: str) -> str:
    return f'<link rel="stylesheet" href="/web/{name}">\n'


def _texts(language: Language, first_scripts: str) -> dict[str, str]:
    """Returns the texts of the page as files: all, those that the scripts of the first view name,
    and the others.
    """
    named = set(_TEXT_KEY.findall(first_scripts))
    beginnings = tuple(set(_TEXT_KEY_BEGINNING.findall(first_scripts)))
    texts = page_texts(language)
    first = {key: text for key, text in texts.items() if key in named or key.startswith(beginnings)}
    later = {key: text for key, text in texts.items() if key not in first}
    parts = {"": texts, ".first": first, ".later": later}
    return {
        f"{language}{part}.json": json.dumps(found, ensure_ascii=False)
        for part, found in parts.items()
    }


def _index(index: str, language: Language, base: str) -> str:
    """Returns the page that names the joined files; it preloads the texts of the likely
    language.
    """
    head = (
        f'<link rel="preload" as="fetch" crossorigin href="{base}/{language}.first.json">\n</head>'
    )
    first = _STYLE.search(index)
    assert first is not None, "the page has styles"
    named = index.replace(first[0], f'<link rel="stylesheet" href="{base}/page.css">\n')
    named = (
        _STYLE.sub("", named)
        .replace("/web/icon.svg", f"{base}/icon.svg")
        .replace("/web/js/", f"{base}/")
    )
    named = named.replace("</head>", head, 1)
    first = f'<html lang="{language}"'
    return with_languages(named, language).replace(first, f'{first} data-built="{base}"', 1)


def with_languages(page: str, language: Language) -> str:
    """Returns an HTML page in a language, which tells its scripts all languages."""
    names = json.dumps({code: text("language_named", code) for code in LANGUAGES})
    return page.replace(
        '<html lang="en">', f'<html lang="{language}" data-languages="{html.escape(names)}">', 1
    )


def joined_scripts(
    root: Path = ROOT / "js", files: Mapping[str, Iterable[str]] = FILES
) -> dict[str, str]:
    """Returns the joined scripts by name. Raises: PageNotJoined."""
    home: dict[str, str] = {}  # module -> the joined file that it is in
    parts: dict[str, list[str]] = {}
    for file, entries in files.items():
        parts[file] = []
        for entry in entries:
            _collect(root, entry, file, home, parts[file], ())
    parts[LATER] = []
    while left := [
        name for module in home for name in _loaded_later(root, module) if name not in home
    ]:
        _collect(root, left[0], LATER, home, parts[LATER], ())
    first = next(iter(files))
    scripts: dict[str, str] = {}
    for file, modules in parts.items():
        head = "const $m = {};\n" if file == first else f'import {{ $m }} from "./{first}";\n'
        needed = {home[name] for module in modules for name in _imported(root, module)} - {
            file,
            first,
        }
        head += "".join(f'import "./{other}";\n' for other in scripts if other in needed)
        scripts[file] = (
            head + "".join(_function(root, module, home) for module in modules) + "export { $m };\n"
        )
    return scripts


def _collect(
    root: Path,
    module: str,
    file: str,
    home: dict[str, str],
    order: list[str],
    trail: tuple[str, ...],
) -> None:
    if module in trail:
        raise PageNotJoined(f"modules import one another: {' -> '.join((*trail, module))}")
    if module in home:
        return
    for name in _imported(root, module):
        _collect(root, name, file, home, order, (*trail, module))
    home[module] = file
    order.append(module)


def _imported(root: Path, module: str) -> list[str]:
    text = (root / module).read_text(encoding="utf-8")
    return [_resolved(module, name) for *_, name in _IMPORT.findall(text)]


def _loaded_later(root: Path, module: str) -> list[str]:
    return [
        _resolved(module, name)
        for name in _LATER.findall((root / module).read_text(encoding="utf-8"))
    ]


def _resolved(module: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(module), name))


def _function(root: Path, module: str, home: Mapping[str, str]) -> str:
    """Returns a module as an entry of `$m`: a function, called at once, that returns its
    exports.
    """

    def imported(found: re.Match[str]) -> str:
        whole, names, name = found.groups()
        given = whole or "{" + names.replace(" as ", ": ") + "}"
        return f'const {given} = $m["{_resolved(module, name)}"];'

    def later(found: re.Match[str]) -> str:
        name = _resolved(module, found[1])
        file = home[name]
        if file in FIRST_FILES or "i18n.js" not in home:
            return f'import("./{file}").then(({{ $m }}) => $m["{name}"])'
        both = f'Promise.all([import("./{file}"), $m["i18n.js"].loadLaterTexts()])'
        return f'{both}.then(([{{ $m }}]) => $m["{name}"])'

    text = _LEFT_OUT.sub("", (root / module).read_text(encoding="utf-8"))
    exported = [name for _, name in _EXPORT.findall(text)]
    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(imported, text))
    if (other := _OTHER.search(_LATER.sub("", body))) is not None:
        raise PageNotJoined(f"{module}: {other[0]}")
    inside = f"{_LATER.sub(later, body)}return {{ {', '.join(exported)} }};"
    return f'$m["{module}"] = (() => {{\n{inside}\n}})();\n'
