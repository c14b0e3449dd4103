"""The stored figures of peers: rows by peer and data set, the machine and the versions
they are of.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "results" / "peers.json"
PLOT = FILE.with_suffix(".svg")
LEFT_OUT = "left out: the time of the run was over"
PACKAGES = ("chromadb", "lightrag-hku", "llama-index-core", "networkx", "numpy")

Row = Mapping[str, Any]


def merged(rows: Sequence[Row], more: Sequence[Row]) -> list[Row]:
    """Return the rows with newer ones in place of those of the same peer and data set.

    One that was left out takes nothing's place.
    """
    by_name = {(row["data"], row["peer"]): row for row in rows}
    for row in more:
        if row.get("failed") != LEFT_OUT or (row["data"], row["peer"]) not in by_name:
            by_name[row["data"], row["peer"]] = row
    return list(by_name.values())


def last_run(rows: Sequence[Row]) -> str | None:
    """Return which run brought the newest row."""
    return max((row["run"] for row in rows if "run" in row), default=None)


def conditions(rows: Sequence[Row]) -> str:
    """Say of how many runs the rows are, and how busy with other work the machine was."""
    runs = {row.get("run") for row in rows}
    known = [row["busy"] for row in rows if row.get("busy") is not None]
    of_runs = "one run" if len(runs) == 1 and None not in runs else "several runs"
    if len(known) < len(rows) or not known:
        return f"{of_runs}, how busy the machine was is not known of all"
    return (
        f"{of_runs}; other work took at most {max(known):.0%} of the cores before each measurement"
    )


def read(file: Path = FILE) -> list[Row]:
    """Return the stored rows, none where nothing was measured yet."""
    if not file.exists():
        return []
    rows: list[Row] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def write(rows: Sequence[Row], file: Path = FILE) -> None:
    """Store the rows with what they were measured on."""
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "versions": {name: version(name) for name in PACKAGES},
        "rows": list(rows),
    }
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def header(file: Path = FILE) -> str:
    """Return one line of where, when and of which versions."""
    document = json.loads(file.read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    return f"{document['machine']}; {document['date']}; {conditions(document['rows'])}; {versions}"
