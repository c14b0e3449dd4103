"""One term a thing, in the field's words, and no package reaches into another."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.each_row import each_row

ROOT = Path(__file__).parents[1]
ROOMS = ("cli", "datasources", "graphrag", "server", "tools")
EVERYWHERE = {"__init__.py", "base.py", "errors.py"}
"""What every package may have: what is used from outside, its seam, its errors."""


def _files() -> list[Path]:
    return [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]


def _stores(places: set[str]) -> bool:
    """Tell whether all places are stores: twins of one seam, as sqlite/source.py and arango/source.py."""
    return all(place.startswith("datasources/") for place in places)


def test_no_module_has_the_name_of_another() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for file in _files():
        found[file.name].add(str(file.relative_to(ROOT)))
    twice = {
        name: places
        for name, places in found.items()
        if len(places) > 1 and name not in EVERYWHERE and not _stores(places)
    }
    # A command's file is named after the command, and what it calls after what it is.
    commands = {name: {p for p in places if not p.startswith("cli/")} for name, places in twice.items()}
    assert {name: places for name, places in commands.items() if len(places) > 1} == {}


def test_no_class_has_the_name_of_another() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for file in _files():
        for name in re.findall(r"^ *class _*(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            found[name].add(str(file.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


CALLERS = ("cli", "graphrag", "server", "tools")
PACKAGES = sorted(file.parent.name for file in (ROOT / "graphrag").glob("*/__init__.py"))


def _init(package: str) -> ast.Module:
    return ast.parse((ROOT / "graphrag" / package / "__init__.py").read_text(encoding="utf-8"))


def _said(package: str) -> set[str]:
    """Return the modules that stand in the paragraph `From outside: …`."""
    paragraph = (ast.get_docstring(_init(package)) or "").partition("From outside:")[2].partition("\n\n")[0]
    return set(re.findall(r"`([\w.]+)`", paragraph)) - {"__all__"}


def _exported(package: str) -> set[str]:
    """Return the names of `__all__`."""
    for node in _init(package).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


IMPORT = re.compile(r"^ *from (graphrag\.[\w.]+) import (?:\(([^)]*)\)|([^#\n]+))", re.MULTILINE)


def _imports(file: Path) -> list[tuple[str, list[str]]]:
    """Return the modules of `graphrag` that a file imports from, and the names that it takes."""
    found = IMPORT.findall(file.read_text(encoding="utf-8"))
    return [(module, re.findall(r"(\w+)(?: as \w+)?", several or one)) for module, several, one in found]


@cache
def _used() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return which modules and names of each package others import, without the wiring, which may use all."""
    modules, names = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for file in (file for room in CALLERS for file in (ROOT / room).rglob("*.py")):
        home = file.relative_to(ROOT).parts[1]
        for source, taken in _imports(file):
            _, package, *inner = source.split(".")
            if package not in PACKAGES or home in (package, "app"):
                continue
            if module := ".".join(inner):
                modules[package].add(module)
                continue
            for name in taken:
                is_module = (ROOT / "graphrag" / package / f"{name}.py").is_file()
                is_name = name in _exported(package) or not is_module
                (names if is_name else modules)[package].add(name)
    return modules, names


@each_row("package", *PACKAGES)
def test_a_package_says_what_others_use_of_it(package: str) -> None:
    modules, names = _used()
    said = _said(package)
    # What is said of a package within holds for its modules.
    used = {next((name for name in said if one.startswith(f"{name}.")), one) for one in modules[package]}
    assert used == said
    if package != "i18n":  # it is one module
        assert names[package] <= _exported(package)


READ = ("cli", "datasources", "graphrag", "nodius_graphrag", "server", "tests", "tools")
_BANNED = """
    absorb absorbs anew aught bare_words borne deed deeds desk desks door doors hears hence journey
    journeys judge judged judgement judges judging judgment keeper keepers lend lends lent lest naught
    permits placings settle settled settles settling shun shunned shuns slip slips spoken telling
    tellings therein thereof told unlent unto whence whereof whoever wish wished wishes
"""
BANNED = frozenset(re.findall(r"\w+", _BANNED))
PHRASES = ("by and by", "is no more", "looks after", "look after", "looks on", "as one likes", "makes real")
OLD_NAMES = frozenset(
    [
        *("RANKS", "as_it_stands", "catch_up", "is_dead_here", "model_step", "one_trip"),
        *("taken_over", "Asker", "Kept", "Mention", "Through", "TurnHold", "Wanted", "Wording"),
    ]
)
"""Names of before, each of a thing that has another name now."""


def _words(name: str) -> set[str]:
    return {part.lower() for part in re.split(r"_+|(?<=[a-z0-9])(?=[A-Z])", name)}


def _docstring_lines(source: str) -> set[int]:
    lines = set[int]()
    for node in ast.walk(ast.parse(source)):
        for statement in getattr(node, "body", None) if isinstance(getattr(node, "body", None), list) else ():
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant):
                lines.add(value.lineno)
    return lines


def _found(source: str) -> Iterator[tuple[int, str]]:
    names = set(re.findall(r"\w+", source))
    parts = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", " ".join(names)).lower()))
    lower = source.lower()
    if (
        parts.isdisjoint(BANNED)
        and "bare_words" not in lower
        and names.isdisjoint(OLD_NAMES)
        and not any(phrase in lower for phrase in PHRASES)
    ):
        return
    docstrings = _docstring_lines(source)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        words, text = set[str](), ""
        if token.type == tokenize.NAME:
            words = _words(token.string)
            if token.string in OLD_NAMES:
                yield token.start[0], token.string
        elif token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.start[0] in docstrings
        ):
            text = token.string.lower()
            words = set(re.findall(r"\w+", text))
        for word in sorted(words & BANNED) + [phrase for phrase in PHRASES if phrase in text]:
            yield token.start[0], word


@each_row("room", *READ)
def test_no_image_and_no_archaic_word_stands_in_a_name_a_docstring_or_a_comment(room: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {word}"
        for file in sorted((ROOT / room).rglob("*.py"))
        if file != Path(__file__)
        for line, word in _found(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_no_image_and_no_archaic_word_stands_in_a_document() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {word}"
        for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        for word in re.findall(r"[a-z]+", line.lower())
        if word in BANNED
    ]
    assert found == []


def test_a_banned_word_is_found_wherever_a_reader_meets_it() -> None:
    source = (
        '"""Told of it."""\nclass IndexKeeper:\n    desk_of = 1  # by and by\n    text = "told"\nRANKS = 1\n'
    )
    expected = [(1, "told"), (2, "keeper"), (3, "desk"), (3, "by and by"), (5, "RANKS")]
    assert list(_found(source)) == expected
