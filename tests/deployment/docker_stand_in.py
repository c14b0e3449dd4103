"""Stands in for `docker`: writes down how it was called, and runs here what was
meant for the service.

Arguments: the folder that stands for the containers, then docker's own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.deployment.containers import STACKS, Containers

IN_SERVICE = ["exec", "-T", "nodius"]

folder, *arguments = sys.argv[1:]
with (Path(folder) / "docker.log").open("a", encoding="utf-8") as log:
    log.write(f"{arguments}\n")
for stack in STACKS:
    if arguments[:8] == [*stack.call, *IN_SERVICE]:
        here = Containers(folder=Path(folder), place="", stack=stack)
        command = [here.here(word) for word in arguments[8:]]
        os.execvp(command[0], command)
