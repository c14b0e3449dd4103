"""What importers leave out is said in French as well."""

from __future__ import annotations

import ast
from pathlib import Path

from graphrag import importers
from graphrag.importers.report import counted, reason_in


def test_every_kind_and_reason_of_a_reader_is_known_in_french() -> None:
    said = 0
    for file in Path(importers.__file__ or "").parent.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr not in ("drop", "repair"):
                continue
            kind, reason = (arg.value if isinstance(arg, ast.Constant) else None for arg in call.args[:2])
            if isinstance(kind, str):
                assert counted(kind, 2, "fr") != f"2 {kind}", kind
            if isinstance(reason, str):
                assert reason_in(reason, "fr") != reason, reason
                said += 1
    assert said > 30
