"""The parts that the program itself tells: commands, settings, rooms."""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from cli.command_table import COMMANDS
from cli.main import load
from graphrag import config, setting_groups
from graphrag.config import setting_fields, setting_variables
from graphrag.sessions.phases import GROUPS, RECOVERED, ROWS, SAME, Phase
from languages.reading import read_tables
from tests.docs.rendering import DocsError

ROOT = Path(__file__).parents[2]
HELP_COLUMN = 30
_CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]
ROOMS: tuple[str, ...] = tuple(_CONTRACTS["root_packages"])


def cli_part() -> str:
    """Return every command with its own options, and the shared options once."""
    commands = dict(_commands({name: load(name) for name in COMMANDS}))
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


def _commands(commands: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command by its whole name; a group is one itself if it does something alone."""
    for name, command in commands.items():
        inner = getattr(command, "commands", None)
        if inner is None or command.invoke_without_command:
            yield prefix + name, command
        if inner is not None:
            yield from _commands(inner, f"{prefix}{name} ")


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


def settings_table() -> list[tuple[str, str, str, str]]:
    """Return (setting, environment variable, default, meaning) of every setting."""
    variables = setting_variables()
    rows: list[tuple[str, str, str, str]] = []
    meanings: dict[str, str] = {}
    for module in (config, setting_groups):
        meanings |= _meanings(inspect.getsource(module))
    for name, field in setting_fields().items():
        given: Any = field.get_default(call_default_factory=True)
        given = ", ".join(given) if isinstance(given, tuple) else given
        default = "" if given is None or given == {} else str(given)
        rows.append((name, variables[name], default, meanings[name]))
    return rows


def _meanings(source: str) -> dict[str, str]:
    """Returns the texts below the settings of a module, by their flat names."""
    prefixes = {model.__name__: prefix for prefix, model in setting_groups.SETTING_GROUPS.values()}
    meanings: dict[str, str] = {}
    for model in ast.parse(source).body:
        if not isinstance(model, ast.ClassDef):
            continue
        prefix = prefixes.get(model.name, "")
        for setting, below in pairwise(model.body):
            if not (isinstance(setting, ast.AnnAssign) and isinstance(setting.target, ast.Name)):
                continue
            if isinstance(below, ast.Expr):
                text = str(ast.literal_eval(below.value))
                meanings[prefix + setting.target.id] = " ".join(text.split())
    return meanings


def settings_part() -> str:
    """Return the table of settings."""
    rows = ["| setting | environment | default | meaning |", "|---|---|---|---|"]
    for name, variable, default, meaning in settings_table():
        shown = f"`{default}`" if default else ""
        rows.append(
            f"| `{name}` | `{variable}` | {shown} | {meaning.replace('|', chr(92) + '|')} |"
        )
    return "\n".join(rows)


def rooms_part() -> str:
    """Return the rooms from top to bottom, as the import contracts order them."""
    layers: list[str] = next(c["layers"] for c in _CONTRACTS["contracts"] if c["type"] == "layers")
    levels = [[room.strip() for room in level.split("|")] for level in layers]
    rows = ["| room | what it is | it may import |", "|---|---|---|"]
    for i, level in enumerate(levels):
        below = [f"`{room}`" for lower in levels[i + 1 :] for room in lower]
        for room in level:
            rows.append(
                f"| [`{room}/`]({room}/) | {_room_sentence(room)} | {', '.join(below) or 'no other room'} |"
            )
    layered = {room for level in levels for room in level}
    rest = [room for room in ROOMS if room not in layered]
    rows += [
        f"| [`{room}/`]({room}/) | {_room_sentence(room)} | nothing of ours |" for room in rest
    ]
    return "\n".join(rows)


def decisions_part() -> str:
    """Returns the `Decision:` paragraphs of the rooms, each with a link to its module."""
    sections: list[str] = []
    for room in ROOMS:
        rows = [
            f"- [{file.relative_to(ROOT / room)}](../{file.relative_to(ROOT)}): {decision}"
            for file in sorted((ROOT / room).rglob("*.py"))
            for decision in _decisions(file.read_text(encoding="utf-8"))
        ]
        if rows:
            sections.append("\n".join([f"## {room}", "", *rows]))
    return "\n\n".join(sections)


def _decisions(source: str) -> Iterator[str]:
    """Yields the paragraphs of all docstrings that begin with `Decision:`, on one line each."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        for paragraph in (text or "").split("\n\n"):
            if paragraph.startswith("Decision:"):
                yield " ".join(paragraph.removeprefix("Decision:").split())


def inside_part() -> str:
    """Return the packages within `graphrag`, each by its first sentence."""
    packages = sorted(path.parent.name for path in (ROOT / "graphrag").glob("*/__init__.py"))
    rows = [
        f"| [`{name}/`](../graphrag/{name}/) | {_room_sentence(f'graphrag/{name}')} |"
        for name in packages
    ]
    return "\n".join(["| where | what it is |", "|---|---|", *rows])


def checks_part() -> str:
    """Return the rules by which graphs are checked, as a table."""
    rules = tomllib.loads((ROOT / "tools" / "checks" / "rules.toml").read_text(encoding="utf-8"))
    sentences = read_tables("en", "checks.toml")
    rows = [f"| `{name}` | {severity} | {sentences[name]} |" for name, severity in rules.items()]
    return "\n".join(["| rule | severity | finding |", "|---|---|---|", *rows])


def transitions_part() -> str:
    """Return the table of a session's phases, as the program reads it, and its groups."""
    names = ("guard", "next", "waits_for", "ends", "counts", "stamps", "note", "also")
    columns = ("row", "phase", "event", *names)
    rows = [f"| {' | '.join(columns)} |", "|---:" + "|---" * (len(columns) - 1) + "|"]
    for row in ROWS:
        phase = f"{row.phase} except {row.excepted}" if row.excepted else row.phase
        counts = " ".join(sorted(row.counts))
        stamps = " ".join(sorted(row.stamps))
        effects = (row.next, row.waits_for, row.ends, counts, stamps, row.note, row.also)
        cells = (phase, row.event, " & ".join(row.guard), *effects)
        rows.append(f"| {row.number} | {' | '.join(cells)} |")
    groups = [
        f"{name}: {', '.join(p for p in Phase if p in phases)}." for name, phases in GROUPS.items()
    ]
    return "\n\n".join([_phase_diagram(), "\n".join(rows), *groups])


def _phase_diagram() -> str:
    """Return the rows of runs as a diagram, with one arrow for each pair of phases."""
    events: dict[tuple[str, str], list[str]] = {}
    for row in ROWS:
        if "chat" not in row.guard and row.next not in (SAME, RECOVERED, row.phase):
            events.setdefault((row.phase, row.next), []).append(row.event.value)
    arrows = [
        f"    {phase} --> {following}: {' or '.join(dict.fromkeys(names))}"
        for (phase, following), names in events.items()
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, "```"])


def _room_sentence(room: str) -> str:
    module = ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))
    docstring = ast.get_docstring(module)
    if not docstring:
        raise DocsError(
            f"{room}/__init__.py has no docstring: its first sentence describes the room"
        )
    return _first_sentence(docstring)
