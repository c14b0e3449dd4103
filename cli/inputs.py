"""Reads the input of commands: files, JSON in options, and typed lines."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from cli import render
from cli.common import fail, usage_error
from graphrag.config import Settings

T = TypeVar("T")

STDIN = "-"
YES_OR_NO = {"y": True, "o": True, "n": False}  # o: oui


def bytes_of(file: Path, limit: int = -1) -> bytes:
    """Returns at most `limit` bytes of a file (-: standard input). Ends the program if it cannot
    be read.
    """
    try:
        if str(file) == STDIN:
            return sys.stdin.buffer.read(limit)
        with file.open("rb") as opened:
            return opened.read(limit)
    except OSError as exc:
        usage_error(f"cannot read {file}: {exc.strerror}")


def write_file(file: Path, content: bytes) -> None:
    """Writes a file. Ends the program if it cannot be written."""
    try:
        file.write_bytes(content)
    except OSError as exc:
        fail(f"cannot write {file}: {exc.strerror}")


def json_of(named: str, text: str | bytes) -> Any:
    """Returns the value of a JSON text. Ends the program if it is malformed; `named` is the option
    or file that holds it.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        usage_error(f"{named} is not JSON: {exc}")


def object_of(named: str, text: str) -> dict[str, Any]:
    """Returns the value of a JSON text that must be an object; see `json_of`."""
    value = json_of(named, text)
    if not isinstance(value, dict):
        usage_error(f"{named} must be a JSON object")
    return cast(dict[str, Any], value)


def service_of(
    settings: Settings, url: str | None, token_file: Path | None
) -> tuple[str, str | None]:
    """Returns the address of a service and the token to sign in with. Ends the program if the
    token cannot be read.
    """
    address = url or f"http://{settings.host}:{settings.port}"
    if token_file is None:
        return address, None
    try:
        return address, bytes_of(token_file).decode().strip()
    except UnicodeDecodeError as exc:
        usage_error(f"cannot read the token in {token_file}: {exc}")


def check_question(question: str) -> None:
    """Ends the program for an empty question."""
    if not question.strip():
        usage_error("the question is empty")


def read_line(prompt: str) -> str | None:
    """Returns the line that is typed; None at Ctrl-D or Ctrl-C."""
    in_main = threading.current_thread() is threading.main_thread()
    # The handler of the event loop would wait for the line to end.
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler) if in_main else None
    try:
        return input(prompt)
    except (EOFError, KeyboardInterrupt):
        render.line()
        return None
    finally:
        if earlier is not None:
            signal.signal(signal.SIGINT, earlier)


def choose(prompt: str, choices: Mapping[str, T]) -> T | None:
    """Asks until the typed line begins with the letter of a choice, and returns that choice; None
    for an empty line, Ctrl-D and Ctrl-C.
    """
    while answer := (read_line(prompt) or "").strip().casefold()[:1]:
        if answer in choices:
            return choices[answer]
        render.fault(f"one of {', '.join(choices)}")
    return None
