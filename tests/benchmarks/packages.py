"""The package graph of this machine's distribution, as `apt-cache dumpavail` gives it: a real
one, with hubs.

A node is a package with its short description, an edge a dependency or a recommendation. Nothing is
kept: it is read each time, and differs from machine to machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from datasources.types import Edge, Node, NodeTypeConfig, TypeTemplate
from tests.benchmarks.synthetic import HANDLES, WORKSPACE

LEAST = 1_000
_RELATIONS = {"Depends": "depends on", "Pre-Depends": "depends on", "Recommends": "recommends"}
_NAME = re.compile(r"^\s*([a-z0-9][a-z0-9+.\-]*)")
_FIELD = re.compile(r"^([A-Za-z0-9\-]+): ?(.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """Packages by name, with the fields that are used of them."""

    found: Mapping[str, Mapping[str, str]]

    def __len__(self) -> int:
        return len(self.found)

    def nodes(self, key: str) -> Iterator[Node]:
        for name, fields in self.found.items():
            notes = " ".join(
                filter(None, (fields.get("Description"), fields.get("Section"), fields.get("Tag")))
            )
            data = {"name": name, "notes": notes}
            yield Node(key=name, graph_key=key, type="package", handles=HANDLES, data=data)

    def edges(self, key: str) -> Iterator[Edge]:
        """Yield an edge for each package that one names and that is there, once a relation."""
        for name, fields in self.found.items():
            ends: dict[tuple[str, str], None] = {}
            for field, label in _RELATIONS.items():
                for one in re.split(r"[,|]", fields.get(field, "")):
                    other = _NAME.match(one)
                    if other and other[1] != name and other[1] in self.found:
                        ends[other[1], label] = None
            for number, (other_name, label) in enumerate(ends):
                yield Edge(
                    key=f"{name} {number}",
                    graph_key=key,
                    source=name,
                    source_handle="0",
                    target=other_name,
                    target_handle="0",
                    label=label,
                )

    def questions(self, count: int, seed: int) -> list[str]:
        """Return the descriptions of some packages, each of which asks for its own."""
        described = sorted(
            {text for fields in self.found.values() if (text := fields.get("Description"))}
        )
        order = np.random.default_rng(seed).permutation(len(described))[:count]
        return [described[place] for place in order]


def package_type() -> NodeTypeConfig:
    template = TypeTemplate(type="package", handles=HANDLES)
    return NodeTypeConfig(key="package", workspace=WORKSPACE, display_name="Package", node=template)


def read_packages() -> Packages | str:
    """Return the packages that this machine knows of, or why there are none."""
    command = shutil.which("apt-cache")
    if command is None:
        return "apt-cache is not on this machine"
    done = subprocess.run([command, "dumpavail"], capture_output=True, timeout=120, check=False)
    if done.returncode:
        return f"apt-cache dumpavail ended with {done.returncode}"
    packages = parse(done.stdout.decode("utf-8", "replace"))
    if len(packages) < LEAST:
        return f"apt-cache knows {len(packages)} packages only; run apt-get update"
    return packages


def parse(text: str) -> Packages:
    """Read stanzas of fields; of several versions of a package the first counts."""
    found: dict[str, Mapping[str, str]] = {}
    wanted = {"Description", "Section", "Tag", *_RELATIONS}
    for stanza in text.split("\n\n"):
        fields: dict[str, str] = {}
        last = ""
        for line in stanza.splitlines():
            if line.startswith((" ", "\t")):
                if last in wanted:
                    fields[last] += f" {line.strip()}"
            elif field := _FIELD.match(line):
                last = field[1]
                fields.setdefault(last, field[2])
        if name := fields.get("Package"):
            found.setdefault(name, {field: fields[field] for field in wanted & fields.keys()})
    return Packages(found=found)
