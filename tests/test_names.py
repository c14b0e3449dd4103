"""One term a thing, in the field's words, and no package reaches into another."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests import acceptance

ROOT = Path(__file__).parents[1]
ROOMS = ("cli", "datasources", "graphrag", "server", "tools")
EVERYWHERE = {"__init__.py", "base.py", "errors.py"}
"""What every package may have: what is used from outside, its seam, its errors."""


def _files() -> list[Path]:
    return [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]


def _stores(places: set[str]) -> bool:
    """Tell whether all places are stores: twins of one seam, as
    sqlite/source.py and arango/source.py.
    """
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
    commands = {
        name: {p for p in places if not p.startswith("cli/")} for name, places in twice.items()
    }
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
    """Returns the modules that stand in the paragraph about what other packages import."""
    docstring = ast.get_docstring(_init(package)) or ""
    paragraph = re.split("From outside:|Public:|Other packages import", docstring)[-1].partition(
        "\n\n"
    )[0]
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
    return [
        (module, re.findall(r"(\w+)(?: as \w+)?", several or one)) for module, several, one in found
    ]


@cache
def _used() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return which modules and names of each package others import, without the wiring, which
    may use all.
    """
    modules = defaultdict[str, set[str]](set)
    names = defaultdict[str, set[str]](set)
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


@pytest.mark.parametrize("package", [*PACKAGES])
def test_a_package_says_what_others_use_of_it(package: str) -> None:
    modules, names = _used()
    said = _said(package)
    # What is said of a package within holds for its modules.
    used = {
        next((name for name in said if one.startswith(f"{name}.")), one) for one in modules[package]
    }
    assert used == said
    if package != "i18n":  # it is one module
        assert names[package] <= _exported(package)


@pytest.mark.parametrize("module", sorted(acceptance.MODULES))
def test_acceptance_tests_know_nothing_that_may_move(module: str) -> None:
    assert acceptance.imports_below_app(acceptance.TESTS / f"{module}.py") == []
