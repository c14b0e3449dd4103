"""Expressions: the conditions in a document, as `$.blocked == true`.

The text is parsed with the `ast` module, and the few allowed kinds of nodes are turned into nested
functions over a scope. No text is ever compiled to Python code.

Decision: `$` and member names that are keywords of Python (`$.from`) are replaced by names of the
same length before parsing, so that the columns in errors are those of the original text.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, Final, NoReturn, cast

from tools.http.problems import BadText
from tools.http.scope import Read, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionLimits:
    """Limits of parsing and evaluating an expression."""

    steps: int = 200_000
    """Steps of one evaluation."""
    elements: int = 10_000
    """Elements of a list that `in` compares."""
    chars: int = 1_000
    """Length of the text."""
    nodes: int = 100
    """Nodes of the syntax tree."""
    depth: int = 20
    """Nesting of the syntax tree."""


EXPRESSION_LIMITS: Final = ExpressionLimits()


class Steps:
    """Counts the elements of lists and objects that one evaluation compares.

    After `EXPRESSION_LIMITS.steps` lists and objects count as different, so that no condition
    blocks the process.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = EXPRESSION_LIMITS.steps


def same(left: Any, right: Any, steps: Steps) -> bool:
    """Returns whether both are the same JSON value."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if not isinstance(left, list | dict):
        return bool(left == right)
    pending: list[tuple[Any, Any]] = [(left, right)]
    while pending:
        first, second = pending.pop()
        if isinstance(first, dict) and isinstance(second, dict):
            first_members = cast(dict[str, Any], first)
            second_members = cast(dict[str, Any], second)
            if first_members.keys() != second_members.keys() or not _paid(
                steps, len(first_members)
            ):
                return False
            pending.extend((value, second_members[key]) for key, value in first_members.items())
        elif isinstance(first, list) and isinstance(second, list):
            first_items = cast(list[Any], first)
            second_items = cast(list[Any], second)
            if len(first_items) != len(second_items) or not _paid(steps, len(first_items)):
                return False
            pending.extend(zip(first_items, second_items, strict=True))
        elif isinstance(first, bool) or isinstance(second, bool):
            if first is not second:
                return False
        elif first != second:
            return False
    return True


def _paid(steps: Steps, count: int) -> bool:
    steps.left -= count + 1
    return steps.left > 0


def ordered(left: Any, right: Any) -> bool:
    """Returns whether two values can be ordered: two numbers or two strings."""
    if isinstance(left, str):
        return isinstance(right, str)
    return _number(left) and _number(right)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def member_of(item: Any, container: Any, steps: Steps) -> bool:
    """Returns whether `item` is an element of a list (one of the first 10,000), a substring of a
    string, or a key of an object.
    """
    if isinstance(container, list):
        items = cast(list[Any], container)[: EXPRESSION_LIMITS.elements]
        steps.left -= len(items)
        return steps.left > 0 and any(same(item, element, steps) for element in items)
    if isinstance(container, str | dict):
        return isinstance(item, str) and item in cast("dict[str, Any] | str", container)
    return False


_Evaluate = Callable[[Scope, Steps], Any]

_ALLOWED = (
    "== != < <= > >= and or not in 'not in', names as ctx.a.b or $.a[0], null true false,"
    " numbers, 'texts', [lists] of these"
)
_LITERALS = {"null": None, "true": True, "false": False}
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<number>(?<!\w)\.?[0-9](?:[eE][+-]|[\w.])*)
    |(?P<member>\.\s*[^\W\d]\w*)|[^\W\d]\w*|[ ]+|.""",
    re.DOTALL | re.VERBOSE,
)
_NUMBER = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ESCAPES = re.compile(r"""(?:[^\\]|\\["'\\bfnrt]|\\u[0-9a-fA-F]{4})*""")
# Added to a character's code: Python allows ideographs in names, and no keyword begins with one.
_RENAMED = 0x4E00
_RESPONSE = chr(_RENAMED + ord("$"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One parsed condition."""

    source: str
    node: _Evaluate = field(compare=False, repr=False)
    reads: tuple[Read, ...] = field(compare=False, repr=False)

    def evaluate(self, scope: Scope) -> Any:
        """Returns the JSON value of the expression. Never raises."""
        return self.node(scope, Steps())

    def holds(self, scope: Scope) -> bool:
        """Returns whether the value counts as true. Never raises."""
        return bool(self.evaluate(scope))


def parse_expression(source: str) -> Expression:
    """Returns the parsed condition. Raises: BadText (bad_expression)."""
    if len(source) > EXPRESSION_LIMITS.chars:
        _refuse(f"longer than {EXPRESSION_LIMITS.chars} characters", None)
    indent = len(source) - len(source.lstrip())
    reader = _TreeCompiler(_renamed(source.strip()), indent)
    return Expression(source=source, node=reader.read(), reads=tuple(reader.reads))


def _renamed(source: str) -> str:
    """Returns a text of the same length that `ast` can parse. Raises: BadText."""
    words: list[str] = []
    for match in _TOKEN.finditer(source):
        word = match[0]
        if match.lastgroup == "text":
            before = source[: match.start()].rstrip()[-1:]
            glued = source[match.start() - 1 : match.start()].isalnum()
            if not _ESCAPES.fullmatch(word) or glued or before in {"'", '"', "_"}:
                _refuse("this text cannot be read", match.start() + 1)
        elif match.lastgroup == "number":
            if not _NUMBER.fullmatch(word):
                _refuse(f"{word!r} is no number", match.start() + 1)
        elif word in {"#", "\\", "'", '"', "\0"}:
            _refuse(f"{word!r} cannot stand here", match.start() + 1)
        elif match.lastgroup == "member":
            name = word[1:].lstrip()
            if iskeyword(name):
                word = word[: -len(name)] + chr(_RENAMED + ord(name[0])) + name[1:]
        elif word == "$":
            word = _RESPONSE
        words.append(" " * len(word) if word.isspace() else word)
    return "".join(words)


def _member(name: str) -> str:
    original = (
        chr(ord(name[0]) - _RENAMED) + name[1:] if 0 <= ord(name[0]) - _RENAMED < 128 else name
    )
    return original if iskeyword(original) else name


def _refuse(what: str, column: int | None) -> NoReturn:
    raise BadText("bad_expression", what, allowed=_ALLOWED, column=column)


class _TreeCompiler:
    """Turns the syntax tree of one expression into functions."""

    def __init__(self, source: str, indent: int) -> None:
        self.source = source
        self.indent = indent
        self.nodes = 0
        self.reads: list[Read] = []

    def read(self) -> _Evaluate:
        try:
            tree = ast.parse(self.source, mode="eval")
        except SyntaxError as error:
            _refuse("this cannot be read", (error.offset or 1) + self.indent)
        # Too deep a nesting; some versions of Python raise SystemError.
        except (ValueError, MemoryError, RecursionError, SystemError):
            _refuse("this cannot be read", None)
        return self.node(tree.body, 1)

    def column(self, node: ast.expr) -> int:
        """Returns the column of a node in characters, from 1. `ast` counts bytes."""
        return (
            len(self.source.encode()[: node.col_offset].decode(errors="replace")) + 1 + self.indent
        )

    def node(self, node: ast.expr, depth: int) -> _Evaluate:
        self.count(node)
        if depth > EXPRESSION_LIMITS.depth:
            _refuse(f"nested deeper than {EXPRESSION_LIMITS.depth}", self.column(node))
        match node:
            case ast.BoolOp(op=op, values=values):
                return _all_or_any(
                    isinstance(op, ast.And), [self.node(value, depth + 1) for value in values]
                )
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.node(operand, depth + 1)
                return lambda scope, steps: not inner(scope, steps)
            case ast.Compare(left=left, ops=ops, comparators=others):
                compare = [self.operator(op, node) for op in ops]
                return _chain(compare, [self.node(part, depth + 1) for part in (left, *others)])
            case ast.List(elts=elements):
                return _list([self.element(element, depth + 1) for element in elements])
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self.name(node)
            case _:
                return _constant(self.literal(node))

    def count(self, node: ast.expr) -> None:
        self.nodes += 1
        if self.nodes > EXPRESSION_LIMITS.nodes:
            _refuse(f"more than {EXPRESSION_LIMITS.nodes} parts", self.column(node))

    def element(self, node: ast.expr, depth: int) -> _Evaluate:
        if isinstance(node, ast.BoolOp | ast.Compare) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            _refuse("a list holds literals and names", self.column(node))
        return self.node(node, depth)

    def operator(self, op: ast.cmpop, node: ast.expr) -> Callable[[Any, Any, Steps], bool]:
        if type(op) not in _OPERATORS:
            _refuse("'is' cannot stand here", self.column(node))
        return _OPERATORS[type(op)]

    def literal(self, node: ast.expr) -> Any:
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        inner = cast(ast.UnaryOp, node).operand if negative else node
        value: Any = inner.value if isinstance(inner, ast.Constant) else ...
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if negative and number:
            value = -cast(float, value)
        elif negative or not (value is None or number or isinstance(value, bool | str)):
            _refuse(f"{type(node).__name__.lower()} cannot stand here", self.column(node))
        if isinstance(value, float) and not math.isfinite(value):
            _refuse("this number is too large", self.column(node))
        return value

    def name(self, node: ast.expr) -> _Evaluate:
        path: list[str | int] = []
        while not isinstance(node, ast.Name):
            self.count(node)
            match node:
                case ast.Attribute(value=value, attr=attr):
                    segment: str | int = _member(attr)
                case ast.Subscript(value=value, slice=ast.Constant(value=int() | str() as segment)):
                    pass
                case _:
                    _refuse("a name is words joined by '.', with [0] for a list", self.column(node))
            if isinstance(segment, bool) or (isinstance(segment, str) and segment.startswith("_")):
                _refuse(f"{segment!r} cannot be read", self.column(node))
            path.insert(0, segment)
            node = value
        if node.id in _LITERALS and not path:
            return _constant(_LITERALS[node.id])
        first = "$" if node.id == _RESPONSE else node.id
        whole = (first, *path)
        self.reads.append((whole, self.column(node)))
        return lambda scope, _: scope.lookup(whole)


def _constant(value: Any) -> _Evaluate:
    return lambda _scope, _steps: value


def _list(elements: Sequence[_Evaluate]) -> _Evaluate:
    return lambda scope, steps: [element(scope, steps) for element in elements]


def _all_or_any(every: bool, parts: Sequence[_Evaluate]) -> _Evaluate:
    if every:
        return lambda scope, steps: all(part(scope, steps) for part in parts)
    return lambda scope, steps: any(part(scope, steps) for part in parts)


def _chain(
    compare: Sequence[Callable[[Any, Any, Steps], bool]], parts: Sequence[_Evaluate]
) -> _Evaluate:
    first, *others = parts

    def evaluate(scope: Scope, steps: Steps) -> bool:
        left = first(scope, steps)
        for holds, part in zip(compare, others, strict=True):
            right = part(scope, steps)
            if not holds(left, right, steps):
                return False
            left = right
        return True

    return evaluate


_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any, Steps], bool]] = {
    ast.Eq: same,
    ast.NotEq: lambda left, right, steps: not same(left, right, steps),
    ast.Lt: lambda left, right, _: ordered(left, right) and left < right,
    ast.LtE: lambda left, right, _: ordered(left, right) and left <= right,
    ast.Gt: lambda left, right, _: ordered(left, right) and left > right,
    ast.GtE: lambda left, right, _: ordered(left, right) and left >= right,
    ast.In: member_of,
    ast.NotIn: lambda left, right, steps: not member_of(left, right, steps),
}
