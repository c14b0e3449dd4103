"""Writes the generated parts of README; `python -m tests.docs`, or `--check` to see whether they drifted.

A part stands between `<!-- generated:NAME -->` and `<!-- end -->`. Parts that code can tell (`cli`,
`settings`, `rooms`) are written anew each time. Measured ones (`ablation`, `multihop`, `benchmarks`)
need time or data, so they stay as they are until `--fill NAME` gives them a command's output.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer.main

from cli.main import app
from graphrag.config import settings_table

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MEASURED = ("ablation", "multihop", "benchmarks")
_PART = re.compile(r"(<!-- generated:(?P<name>[a-z-]+) -->\n)(?P<text>.*?)(<!-- end -->)", re.DOTALL)
_MARK = re.compile(r"^<!-- (?:generated:[a-z-]+|end) -->$", re.MULTILINE)
HELP_COLUMN = 30


class DocsError(Exception):
    """A document cannot be written as it is; the text says where and why."""


def render(text: str, parts: Mapping[str, Callable[[], str]], fill: Mapping[str, str] | None = None) -> str:
    """Return a document with its generated parts written anew. Raises: DocsError for an unknown part."""
    fill = fill or {}
    names = [match["name"] for match in _PART.finditer(text)]
    _check_marks(text, names)
    for name in (*parts, *fill):
        if name not in names:
            raise DocsError(f"there is no part <!-- generated:{name} -->")

    def written(match: re.Match[str]) -> str:
        name = match["name"]
        if name in fill:
            return f"{match[1]}{fill[name].strip()}\n{match[4]}"
        if name in parts:
            return f"{match[1]}{parts[name]().strip()}\n{match[4]}"
        if name in MEASURED:
            return match[0]
        raise DocsError(f"nothing generates the part {name!r}; known: {', '.join((*parts, *MEASURED))}")

    return _PART.sub(written, text)


def _check_marks(text: str, names: list[str]) -> None:
    if len(_MARK.findall(text)) != 2 * len(names):
        raise DocsError("a <!-- generated:NAME --> has no <!-- end --> after it, or the other way round")
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise DocsError(f"more than one part is called {', '.join(sorted(twice))}")


def cli_part() -> str:
    """Return every command with its own options, and the shared options once."""
    commands = dict(_commands(typer.main.get_command(app)))
    uses: dict[str, int] = {}
    for command in commands.values():
        for line in _options(command):
            uses[line] = uses.get(line, 0) + 1
    shared = [line for line, count in uses.items() if count > len(commands) / 2]
    lines: list[str] = []
    for name, command in commands.items():
        arguments = [_metavar(p) for p in command.params if p.param_type_name == "argument"]
        lines.append(" ".join(["nodius", name, *arguments]))
        lines.append(f"  {_first_sentence(command.help)}")
        lines += [line for line in _options(command) if line not in shared]
        lines.append("")
    return "\n".join(["```text", *lines, "Most commands also take:", *shared, "```"])


def _commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command by its whole name; a group is one itself if it does something alone."""
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        if inner is None or command.invoke_without_command:
            yield prefix + name, command
        if inner is not None:
            yield from _commands(command, f"{prefix}{name} ")


def _options(command: Any) -> list[str]:
    lines: list[str] = []
    for param in command.params:
        if param.param_type_name != "option" or "--help" in param.opts:
            continue
        names = ", ".join(sorted(param.opts, key=lambda name: (not name.startswith("--"), name)))
        left = f"  {names}" if param.is_flag else f"  {names} {_metavar(param)}"
        gap = " " * max(2, HELP_COLUMN - len(left))
        lines.append(f"{left}{gap}{param.help}")
    return lines


def _metavar(param: Any) -> str:
    if not param.metavar:
        raise DocsError(f"the parameter {param.name!r} of a command has no metavar")
    return param.metavar


def _first_sentence(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def settings_part() -> str:
    """Return the table of settings."""
    rows = ["| setting | environment | default | meaning |", "|---|---|---|---|"]
    for name, variable, default, meaning in settings_table():
        shown = f"`{default}`" if default else ""
        rows.append(f"| `{name}` | `{variable}` | {shown} | {meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def rooms_part() -> str:
    """Return the rooms from top to bottom, as the import contracts order them."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    layers: list[str] = next(c["layers"] for c in contracts if c["type"] == "layers")
    levels = [[room.strip() for room in level.split("|")] for level in layers]
    rows = ["| room | what it is | it may import |", "|---|---|---|"]
    for i, level in enumerate(levels):
        below = [f"`{room}`" for lower in levels[i + 1 :] for room in lower]
        for room in level:
            rows.append(
                f"| [`{room}/`]({room}/) | {_room_sentence(room)} | {', '.join(below) or 'no other room'} |"
            )
    layered = {room for level in levels for room in level}
    rest = [room for room in config["tool"]["importlinter"]["root_packages"] if room not in layered]
    rows += [f"| [`{room}/`]({room}/) | {_room_sentence(room)} | nothing of ours |" for room in rest]
    return "\n".join(rows)


def _room_sentence(room: str) -> str:
    module = ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))
    docstring = ast.get_docstring(module)
    if not docstring:
        raise DocsError(f"{room}/__init__.py has no docstring: its first sentence describes the room")
    return _first_sentence(docstring)


PARTS: Mapping[str, Callable[[], str]] = {"rooms": rooms_part, "cli": cli_part, "settings": settings_part}


def main(arguments: list[str] | None = None, readme: Path = README) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 when a part drifted")
    parser.add_argument("--fill", metavar="NAME", choices=MEASURED, help="a part to fill from standard input")
    given = parser.parse_args(arguments)
    before = readme.read_text(encoding="utf-8")
    try:
        after = render(before, PARTS, {given.fill: _as_markdown(sys.stdin.read())} if given.fill else None)
    except DocsError as exc:
        print(f"{readme.name}: {exc}", file=sys.stderr)
        return 1
    if after == before:
        return 0
    if given.check:
        drifted = _names_of_changed(before, after)
        print(f"{readme.name}: {', '.join(drifted)} drifted from the code; run `make docs`", file=sys.stderr)
        return 1
    readme.write_text(after, encoding="utf-8")
    print(f"{readme.name}: wrote {', '.join(_names_of_changed(before, after))}")
    return 0


def _as_markdown(output: str) -> str:
    """Return a command's output as Markdown: tables of pipes as they are, anything else as it was printed."""
    if re.search(r"^\|[-:|]+\|$", output, re.MULTILINE):
        return output
    return f"```text\n{output.strip()}\n```"


def _names_of_changed(before: str, after: str) -> list[str]:
    old = {match["name"]: match["text"] for match in _PART.finditer(before)}
    return [match["name"] for match in _PART.finditer(after) if old[match["name"]] != match["text"]]


if __name__ == "__main__":
    sys.exit(main())
