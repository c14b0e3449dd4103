"""Classes are final, and inherit from protocols, abstract bases, data bases and errors only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("cli", "datasources", "graphrag", "server", "tools")
FINAL = (
    "graphrag/agent",
    "graphrag/agents",
    "graphrag/approvals",
    "graphrag/commands",
)  # packages in which every class without a subclass is final

# A class with one of these ancestors holds data or a meaning: its subclasses add fields or facts.
_DATA = {"BaseModel", "BaseSettings", "Exception", "ValueError"}
_SHAPES = {"NamedTuple", "TypedDict", "Protocol", "Enum", "IntEnum", "StrEnum"}

CONCRETE_BASES = {
    # Dataclasses whose subclasses add fields.
    "Common",
    "Meaning",
    "OptionGroup",
    "Printing",
    "Snapshot",
    "StoredFields",
    "UsageReport",
    "WorkspaceContext",
    # Classes with behaviour. Pass a collaborator in rather than add a name here.
    "ChangeFeed",
    "Changes",
    "HeldGraph",
    "LiveSource",
    "LiveWatch",
    "MemoryOverlay",
    "StoreWatch",
    "_WholeSource",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Class:
    name: str
    file: str
    bases: tuple[str, ...]
    is_final: bool
    is_abstract: bool


def _last_name(node: ast.expr) -> str:
    node = node.value if isinstance(node, ast.Subscript) else node
    return ast.unparse(node).rpartition(".")[2]


def _classes_of(file: Path) -> Iterator[_Class]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = [n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        bases = tuple(_last_name(base) for base in node.bases)
        marks = {_last_name(d) for method in methods for d in method.decorator_list}
        yield _Class(
            name=node.name,
            file=str(file.relative_to(ROOT)),
            bases=bases,
            is_final="final" in {ast.unparse(d) for d in node.decorator_list},
            is_abstract=bool({"Protocol", "ABC"} & {*bases}) or "abstractmethod" in marks,
        )


@cache
def _classes() -> dict[str, _Class]:
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    return {one.name: one for file in files for one in _classes_of(file)}


def _ancestors(name: str) -> set[str]:
    one = _classes().get(name)
    bases = set(one.bases) if one else set[str]()
    return bases.union(*(_ancestors(base) for base in bases)) if bases else bases


def _subclassed() -> set[str]:
    return {base for one in _classes().values() for base in one.bases} & {*_classes()}


def test_only_named_bases_are_concrete() -> None:
    concrete = {
        name
        for name in _subclassed()
        if not _classes()[name].is_abstract and not _ancestors(name) & _DATA
    }
    assert concrete == CONCRETE_BASES


@pytest.mark.parametrize("package", FINAL)
def test_a_class_without_subclasses_is_final(package: str) -> None:
    open_classes = {
        one.name
        for one in _classes().values()
        if Path(one.file).parent == Path(package)
        and not one.is_final
        and not {*one.bases} & _SHAPES
        and one.name not in _subclassed()
    }
    assert open_classes == set()
