"""Runs what the Compose files and the Dockerfile say, without containers: files in a folder
stand for theirs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "packaging/Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
_WITH_DEFAULT = re.compile(r"\$\{(\w+):-(\w*)\}")


@dataclass(frozen=True, slots=True)
class Stack:
    """A Compose file, and the place of the database in it."""

    file: str
    server: str

    @property
    def content(self) -> dict[str, Any]:
        return yaml.safe_load((ROOT / self.file).read_text(encoding="utf-8"))

    @property
    def services(self) -> dict[str, Any]:
        return self.content["services"]

    @property
    def call(self) -> list[str]:
        """The arguments of docker for this file."""
        return ["compose", "-f", self.file, "--project-directory", "."]


ARANGO = Stack("packaging/compose.yaml", "arangodb:8529")
POSTGRES = Stack("packaging/compose.postgres.yaml", "postgres:5432")
SQLITE = Stack("packaging/compose.sqlite.yaml", "nodius:8426")
STACKS = (ARANGO, POSTGRES)


def instructions(name: str) -> list[list[str]]:
    """Return the words of each instruction of the Dockerfile that has this name."""
    lines = (line.split() for line in DOCKERFILE.splitlines())
    return [words[1:] for words in lines if words and words[0] == name]


def image_environment() -> dict[str, str]:
    """Return what the image sets, but for the path to its programs."""
    pairs = (word.partition("=") for words in instructions("ENV") for word in words)
    return {name: value for name, _, value in pairs if name != "PATH"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """A folder that stands for the places that services share, and where the database really is."""

    folder: Path
    place: str
    stack: Stack = ARANGO

    def secret(self, name: str) -> str:
        return (self.folder / "secrets" / f"{name}.txt").read_text(encoding="utf-8").strip()

    def here(self, text: str) -> str:
        """Return text of a Compose file with this folder's places, after Compose has read it."""
        text = (
            text.replace("$$", "$")
            .replace(self.stack.server, self.place)
            .replace("/scripts/", f"{self.folder}/")
            .replace("/backups/", f"{self.folder}/")
        )
        return re.sub(r"/run/secrets/(\w+)", rf"{self.folder}/secrets/\1.txt", text)

    def command(self, service: str) -> list[str]:
        parts = self.stack.services[service]
        return [self.here(word) for word in [*parts["entrypoint"], *parts["command"]]]

    def environment(self, service: str | None, **more: str) -> dict[str, str]:
        """Return all that a service's process is given; nothing of this process but
        where programs are.
        """
        declared = {} if service is None else self.stack.services[service].get("environment", {})
        set_here = {name: value for name, value in declared.items() if value is not None}
        read = {
            name: self.here(_WITH_DEFAULT.sub(r"\2", value)) for name, value in set_here.items()
        }
        programs = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**image_environment(), **read, "PATH": programs, "HOME": str(self.folder), **more}

    def run(self, service: str, **more: str) -> str:
        """Run a service that ends; return what it said. It must end well."""
        return self.call(self.command(service), self.environment(service, **more))

    def call(self, command: list[str], environment: dict[str, str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            start_new_session=True,  # without a terminal to ask for passwords
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def program(self, name: str, *command: str) -> None:
        """Put a program of this name where services look for programs."""
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        file.chmod(0o755)

    def make(self, target: str) -> str:
        """Make a target of the Makefile in this folder."""
        return self.call(
            ["make", "-s", "-f", str(ROOT / "Makefile"), target], self.environment(None)
        )


def users_file(containers: Containers) -> Path:
    """Return where the stand-in of arangosh keeps its users; at first there is only root."""
    file = containers.folder / "users.json"
    if not file.exists():
        file.write_text(json.dumps({"users": {"root": {}}}), encoding="utf-8")
    return file
