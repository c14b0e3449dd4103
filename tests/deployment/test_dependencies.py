"""pyproject names every distribution that the rooms import, and no other."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import pytest

from tests.deployment.containers import ROOT

ROOMS = {
    "cli",
    "datasources",
    "graphrag",
    "languages",
    "mock_data",
    "nodius_graphrag",
    "server",
    "tools",
}
NOT_IMPORTED = {"tzdata", "wordllama"}
"""Installed for the files they ship: time zones, and the weights of the local embeddings."""
IMPORTED_EXTRAS = ("oidc", "otel", "postgres")
"""Extras whose distributions the rooms import where they are there."""
SHARED = {
    "opentelemetry": [
        "opentelemetry-api",
        "opentelemetry-sdk",
        "opentelemetry-exporter-otlp-proto-http",
    ]
}
"""Several distributions write into one module."""
_OURS = ROOMS | set(sys.stdlib_module_names)
_MAY_IMPORT = re.compile(r"^ *(?:from|import) +(\w+)", re.MULTILINE)


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _imported_modules() -> Iterator[str]:
    for room in ROOMS:
        for file in (ROOT / room).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            if set(_MAY_IMPORT.findall(text)) <= _OURS:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Import):
                    yield from (alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module.split(".")[0]


@pytest.mark.slow
def test_pyproject_declares_what_is_imported_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *(text for name in IMPORTED_EXTRAS for text in extras[name])]
    declared = {_normalized(re.split(r"[\[<>=!~ ]", text)[0]) for text in named}
    distributions = packages_distributions()
    foreign = set(_imported_modules()) - _OURS
    named = [name for module in foreign for name in SHARED.get(module, distributions[module][:1])]
    imported = {_normalized(name) for name in named}
    assert imported - declared == set(), "imported, but not declared in pyproject.toml"
    assert declared - imported - NOT_IMPORTED == set(), (
        "declared in pyproject.toml, but not imported"
    )
