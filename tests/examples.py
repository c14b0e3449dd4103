"""Finds the console examples of a document and compares them with what the commands really print.

An example is a fenced block ```console with lines `$ nodius …` and their output. A line `…` stands
for any lines, a line that ends in ` …` for any rest of the line; times are not compared.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROMPT = "$ nodius "
_TIME = re.compile(r"\d+\.\d+ (ms|s)\b")
ANY = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One command and the output that a document shows of it."""

    command: str
    output: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        return shlex.split(self.command)[1:]


def examples_of(document: str) -> list[Example]:
    """Return the examples of a document in order. Raises: ValueError where output
    has no command.
    """
    found: list[Example] = []
    for block in _BLOCK.findall(document):
        command = ""
        output = list[str]()
        for line in [*block.splitlines(), _PROMPT]:
            if not line.startswith(_PROMPT):
                output.append(line.rstrip())
                continue
            if command:
                found.append(Example(command=command, output=tuple(_trimmed(output))))
            elif output:
                raise ValueError(f"an example must start with {_PROMPT!r}, not with {output[0]!r}")
            command = line.removeprefix("$ ")
            output = []
    return found


def matches(shown: tuple[str, ...], printed: str) -> bool:
    """Say whether the shown lines are what was printed, elisions and times aside."""
    actual = [_timeless(line.rstrip()) for line in _trimmed(printed.splitlines())]
    pattern = "".join(r"(?:.*\n)*?" if line == ANY else _line_pattern(line) for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in actual)) is not None


def _line_pattern(line: str) -> str:
    line = _timeless(line)
    if line.endswith(f" {ANY}"):
        return re.escape(line.removesuffix(ANY)) + r".*\n"
    return re.escape(line) + r"\n"


def _timeless(line: str) -> str:
    return _TIME.sub(r"0 \1", line)


def _trimmed(lines: list[str]) -> list[str]:
    """Leave out empty lines at both ends."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
