"""Checks the syntax of node code: JavaScript with tree-sitter, Python with the `ast` module."""

from __future__ import annotations

import ast
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

MAX_CODE_BYTES: Final = 200_000  # longer code is not parsed: it would exceed a request's time
# The code of a node is parsed as the body of a function: it may return, await and yield.
_HEAD: Final = "(async function* () {\n"
_TAIL: Final = "\n})"
_MODULE = re.compile(r"^\s*(?:import|export)\b", re.MULTILINE)


def first_error(code: str, language: str) -> int | None:
    """Returns the line of the first syntax error, counted from 1.

    Returns None if the code is valid, too long, or in another language than JavaScript and
    Python.
    """
    if len(code) > MAX_CODE_BYTES:
        return None
    if language == "javascript":
        return _javascript_error(code)
    if language.startswith("python"):
        return _python_error(code)
    return None


def without_comments(code: str, language: str) -> str:
    """Returns JavaScript code with its comments replaced by blanks; other code unchanged."""
    if language != "javascript" or len(code) > MAX_CODE_BYTES or not ("//" in code or "/*" in code):
        return code
    raw = bytearray((_HEAD + code + _TAIL).encode())
    for node in _of_type(_parse(code), "comment"):
        raw[node.start_byte : node.end_byte] = b" " * (node.end_byte - node.start_byte)
    return raw.decode()[len(_HEAD) : -len(_TAIL)]


def _javascript_error(code: str) -> int | None:
    tree = _parse(code)
    if not tree.root_node.has_error:
        return None
    # A module is parsed without the function around it, where import and export are not allowed.
    if _MODULE.search(code) and not _parser().parse(code.encode()).root_node.has_error:
        return None
    lines = [node.start_point.row for node in _walk(tree) if node.is_error or node.is_missing]
    return min(max(1, min(lines, default=1)), code.count("\n") + 1)


def _python_error(code: str) -> int | None:
    body = "async def _body():\n" + "".join(f" {line}\n" for line in code.splitlines() or ["pass"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(body + " pass\n")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return max(1, (getattr(error, "lineno", None) or 2) - 1)
    return None


@cache
def _parser() -> Parser:
    import tree_sitter_javascript  # only checks need it
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_javascript.language()))


def _parse(code: str) -> Tree:
    return _parser().parse((_HEAD + code + _TAIL).encode())


def _of_type(tree: Tree, kind: str) -> list[Node]:
    return [node for node in _walk(tree) if node.type == kind]


def _walk(tree: Tree) -> list[Node]:
    nodes: list[Node] = []
    pending = [tree.root_node]
    while pending:
        node = pending.pop()
        nodes.append(node)
        pending.extend(node.children)
    return nodes
