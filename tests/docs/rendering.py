"""Rewrites the parts of a document that stand between `<!-- generated:NAME -->` and
`<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

MEASURED = ("ablation", "multihop", "benchmarks", "page")
"""Parts whose figures are stored nowhere else: they stay as they are until a command's
output fills them.
"""
PART = re.compile(r"(<!-- generated:(?P<name>[a-z-]+) -->\n)(?P<text>.*?)(<!-- end -->)", re.DOTALL)
_MARK = re.compile(r"^<!-- (?:generated:[a-z-]+|end) -->$", re.MULTILINE)


class DocsError(Exception):
    """A document cannot be written as it is; the text says where and why."""


def render(
    text: str, parts: Mapping[str, Callable[[], str]], fill: Mapping[str, str] | None = None
) -> str:
    """Return a document with its generated parts written again. Raises: DocsError for
    an unknown part.
    """
    fill = fill or {}
    names = [match["name"] for match in PART.finditer(text)]
    _check_marks(text, names)

    def written(match: re.Match[str]) -> str:
        name = match["name"]
        if name in fill:
            return f"{match[1]}{fill[name].strip()}\n{match[4]}"
        if name in parts:
            return f"{match[1]}{parts[name]().strip()}\n{match[4]}"
        if name in MEASURED:
            return match[0]
        raise DocsError(
            f"nothing generates the part {name!r}; known: {', '.join((*parts, *MEASURED))}"
        )

    return PART.sub(written, text)


def _check_marks(text: str, names: list[str]) -> None:
    if len(_MARK.findall(text)) != 2 * len(names):
        raise DocsError(
            "a <!-- generated:NAME --> has no <!-- end --> after it, or the other way round"
        )
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise DocsError(f"more than one part is called {', '.join(sorted(twice))}")


def names_of_parts(text: str) -> list[str]:
    """Return the names of a document's generated parts, in their order."""
    return [match["name"] for match in PART.finditer(text)]


def names_of_changed(before: str, after: str) -> list[str]:
    """Return the parts whose text is not the same in both."""
    old = {match["name"]: match["text"] for match in PART.finditer(before)}
    return [match["name"] for match in PART.finditer(after) if old[match["name"]] != match["text"]]


def as_markdown(output: str) -> str:
    """Return a command's output as Markdown: tables of pipes as they are, anything else as
    it was printed.
    """
    if re.search(r"^\|[-:|]+\|$", output, re.MULTILINE):
        return output
    return f"```text\n{output.strip()}\n```"
