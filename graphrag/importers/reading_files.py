"""Reads the files of imports: a small one in a thread, any other in a process that can be killed.

A process costs half a second, and keeps a file that was made to be slow or large from everybody else:
it has a limit of time and of memory. Two files are read at once and some wait, the next is refused.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO

import orjson
from pydantic import BaseModel, TypeAdapter

from datasources.types import Edge, Graph, Node, NodeTypeConfig, parse_document
from graphrag.importers import ImportReport, ImportResult, UnreadableWorkflow, import_workflow
from graphrag.workers import Workers

SMALL_BYTES = 256 * 1024
"""The time to read so little is bounded well enough by its size."""

CPU_LIMIT_S, TIME_LIMIT_S = 60, 180
MEMORY_LIMIT_BYTES = 2 << 30
AT_ONCE, WAITING = 2, 8
_PART = 200
"""Documents that are sent, and read, in one piece."""

_OUT_OF_TIME = (-9, -24)
"""SIGKILL and SIGXCPU, by which a system ends a process that has computed for too long."""

_START = "import sys; sys.path[:] = sys.argv[1:]; from graphrag.importers.reading_files import main; main()"
_REPORT = TypeAdapter(ImportReport)


class _FilePart(BaseModel):
    nodes: list[Node] = []
    edges: list[Edge] = []


_workers = Workers(threads=AT_ONCE, waiting=WAITING)


async def read_file(
    raw: bytes, *, file_name: str, workspace: str, graph_key: str | None = None
) -> ImportResult:
    """Read a workflow of any known format. Raises: UnreadableWorkflow, WorkersBusy."""
    if len(raw) <= SMALL_BYTES:
        return await _workers.run(
            import_workflow, raw, file_name=file_name, workspace=workspace, graph_key=graph_key
        )
    asked = {"file_name": file_name, "workspace": workspace, "graph_key": graph_key}
    children: list[subprocess.Popen[bytes] | None] = []
    try:
        return await _workers.run(_read_apart, raw, asked, children)
    except asyncio.CancelledError:
        children.append(None)
        for child in filter(None, children):
            child.kill()
        raise


def _read_apart(
    raw: bytes, asked: dict[str, Any], children: list[subprocess.Popen[bytes] | None]
) -> ImportResult:
    """Read a file in a process, which is added to `children`; None there says that nobody waits any more."""
    command = [sys.executable, "-c", _START, *sys.path]
    pipe, file_name = subprocess.PIPE, str(asked["file_name"])
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as child:
        children.append(child)
        if None in children:
            child.kill()
        try:
            answer, _ = child.communicate(orjson.dumps(asked) + b"\n" + raw, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired as exc:
            child.kill()
            reason = f"to read it takes longer than {TIME_LIMIT_S} s; split the workflow"
            raise UnreadableWorkflow(file=file_name, reason=reason) from exc
    if child.returncode in _OUT_OF_TIME:
        reason = f"to read it takes more than {CPU_LIMIT_S} s of computing; split the workflow"
        raise UnreadableWorkflow(file=file_name, reason=reason)
    if child.returncode:
        reason = f"to read it takes more than {MEMORY_LIMIT_BYTES >> 30} GiB of memory; split the workflow"
        raise UnreadableWorkflow(file=file_name, reason=reason)
    return _decoded(iter(answer.splitlines()), file_name)


def _decoded(lines: Iterator[bytes], file_name: str) -> ImportResult:
    head = orjson.loads(next(lines))
    if "refused" in head:
        raise UnreadableWorkflow(file=file_name, reason=head["refused"])
    result = ImportResult(
        graph=parse_document(Graph, head["graph"], "graphs"),
        nodes=(),
        edges=(),
        configs=tuple(parse_document(NodeTypeConfig, raw, "node_configs") for raw in head["configs"]),
        report=_REPORT.validate_python(head["report"]),
        kept=base64.b64decode(head["kept"]),
    )
    nodes: list[Node] = []
    edges: list[Edge] = []
    for line in lines:
        part = _FilePart.model_validate_json(line, by_alias=True, by_name=False)
        nodes += part.nodes
        edges += part.edges
    return replace(result, nodes=tuple(nodes), edges=tuple(edges))


def _encoded(result: ImportResult) -> Iterator[dict[str, Any]]:
    yield {
        "graph": result.graph.to_document(),
        "configs": [config.to_document() for config in result.configs],
        "report": _REPORT.dump_python(result.report),
        "kept": base64.b64encode(result.kept).decode(),
    }
    for name, documents in (("nodes", result.nodes), ("edges", result.edges)):
        for start in range(0, len(documents), _PART):
            yield {name: [document.to_document() for document in documents[start : start + _PART]]}


def main(stdin: BinaryIO = sys.stdin.buffer, stdout: BinaryIO = sys.stdout.buffer) -> None:
    """Be the process that reads a file: what is asked and the file come in, documents go out."""
    _limit_itself()
    gc.disable()  # all that is made is needed to the end
    asked = orjson.loads(stdin.readline())
    try:
        for part in _encoded(import_workflow(stdin.read(), **asked)):
            stdout.write(orjson.dumps(part) + b"\n")
    except UnreadableWorkflow as exc:
        stdout.write(orjson.dumps({"refused": exc.reason}) + b"\n")
    stdout.flush()
    os._exit(0)  # what was read need not be taken apart


def _limit_itself() -> None:
    with suppress(ImportError, OSError, ValueError):  # where a system has no such limits, time is one
        import resource

        os.nice(5)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
