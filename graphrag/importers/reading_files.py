"""Reads the files of imports: a small one in a thread, any other in a process that can be killed.

A process keeps a file that was made to be slow or large from everybody else: it has a limit of time
and of memory. Two files are read at once and some wait, the next is refused. A process waits for
the next file for some minutes: Python takes a second to start, and most files less to be read.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO

import orjson
from pydantic import BaseModel, TypeAdapter

from datasources.types import Edge, Graph, Node, NodeTypeConfig, parse_document
from graphrag.importers import ImportReport, ImportResult, UnreadableWorkflow, import_workflow
from graphrag.workers import Workers, resident

SMALL_BYTES = 256 * 1024
"""The time to read so little is bounded well enough by its size."""

CPU_LIMIT_S, TIME_LIMIT_S = 60, 180
MEMORY_LIMIT_BYTES = 2 << 30
AT_ONCE, WAITING = 2, 8
IDLE_S = 300
"""So long a process waits for its next file before it ends."""

MAX_IDLE_BYTES = 400 << 20
"""One that holds more memory after a file ends at once."""

_PART = 200
"""Documents that are sent, and read, in one piece."""

_OUT_OF_TIME = (-9, -24)
"""SIGKILL and SIGXCPU, by which a system ends a process that has computed for too long."""

_START = "import sys; sys.path[:] = sys.argv[1:]; from graphrag.importers.reading_files import main; main()"
_REPORT = TypeAdapter(ImportReport)


class _FilePart(BaseModel):
    nodes: list[Node] = []
    edges: list[Edge] = []


class FileReaders:
    """The processes that read files, kept for the next one. `program` is what they run."""

    def __init__(
        self,
        program: str = _START,
        *,
        time_limit_s: float = TIME_LIMIT_S,
        at_once: int = AT_ONCE,
        waiting: int = WAITING,
    ) -> None:
        self._command = [sys.executable, "-c", program, *sys.path]
        self._time_limit_s = time_limit_s
        self._workers = Workers(threads=at_once, waiting=waiting)
        self._idle: list[subprocess.Popen[bytes]] = []

    async def read(
        self, raw: bytes, *, file_name: str, workspace: str, graph_key: str | None = None
    ) -> ImportResult:
        """Read a workflow of any known format. Raises: UnreadableWorkflow, WorkersBusy."""
        if len(raw) <= SMALL_BYTES:
            return await self._workers.run(
                import_workflow, raw, file_name=file_name, workspace=workspace, graph_key=graph_key
            )
        asked = {"file_name": file_name, "workspace": workspace, "graph_key": graph_key}
        used: list[subprocess.Popen[bytes] | None] = []
        try:
            return await self._workers.run(self._read_apart, raw, asked, used)
        except asyncio.CancelledError:
            used.append(None)
            for process in filter(None, used):
                process.kill()
            raise

    def close(self) -> None:
        """End the processes that wait."""
        while self._idle:
            _end(self._idle.pop())

    def _read_apart(
        self, raw: bytes, asked: dict[str, Any], used: list[subprocess.Popen[bytes] | None]
    ) -> ImportResult:
        """Read a file in a process, which is added to `used`; None there says that nobody
        waits any more.
        """
        while True:
            process, is_new = self._taken()
            used.append(process)
            if None in used:
                process.kill()
            lines, is_late = self._asked(process, raw, asked)
            if lines and lines[-1] == b"\n":
                self._idle.append(process)
                return _decoded(iter(lines[:-1]), asked["file_name"])
            code = _end(process)
            if lines or is_new or is_late or None in used:  # else it had ended while it waited
                raise UnreadableWorkflow(
                    file=asked["file_name"], reason=self._reason(code, is_late=is_late)
                )

    def _taken(self) -> tuple[subprocess.Popen[bytes], bool]:
        """Return a process, and whether it has just been started."""
        while self._idle:
            process = self._idle.pop()
            if process.poll() is None:
                return process, False
            _end(process)
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        ), True

    def _asked(
        self, process: subprocess.Popen[bytes], raw: bytes, asked: dict[str, Any]
    ) -> tuple[list[bytes], bool]:
        """Return what a process answers, line by line, and whether it was killed for
        taking too long.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def kill() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._time_limit_s, kill)
        timer.start()
        lines: list[bytes] = []
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(orjson.dumps({**asked, "bytes": len(raw)}) + b"\n")
                process.stdin.write(raw)
                process.stdin.flush()
            for line in process.stdout:
                lines.append(line)
                if line == b"\n":
                    break
        finally:
            timer.cancel()
        return lines, late.is_set()

    def _reason(self, code: int, *, is_late: bool) -> str:
        if is_late:
            return f"to read it takes longer than {self._time_limit_s} s; split the workflow"
        if code in _OUT_OF_TIME:
            return f"to read it takes more than {CPU_LIMIT_S} s of computing; split the workflow"
        return f"to read it takes more than {MEMORY_LIMIT_BYTES >> 30} GiB of memory; split the workflow"


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a process; return its exit code."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    try:
        return process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


_readers = FileReaders()
atexit.register(_readers.close)


async def read_file(
    raw: bytes, *, file_name: str, workspace: str, graph_key: str | None = None
) -> ImportResult:
    """Read a workflow of any known format. Raises: UnreadableWorkflow, WorkersBusy."""
    return await _readers.read(raw, file_name=file_name, workspace=workspace, graph_key=graph_key)


def _decoded(lines: Iterator[bytes], file_name: str) -> ImportResult:
    head = orjson.loads(next(lines))
    if "refused" in head:
        raise UnreadableWorkflow(file=file_name, reason=head["refused"])
    result = ImportResult(
        graph=parse_document(Graph, head["graph"], "graphs"),
        nodes=(),
        edges=(),
        configs=tuple(
            parse_document(NodeTypeConfig, raw, "node_configs") for raw in head["configs"]
        ),
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
    """Be a process that reads files: what is asked and a file come in, documents and an empty
    line go out.
    """
    _bound_memory()
    gc.disable()  # all that is made of a file is needed to its end
    while resident() < MAX_IDLE_BYTES and (head := _next_line(stdin)):
        asked = orjson.loads(head)
        raw = stdin.read(asked.pop("bytes"))
        _bound_computing()
        stdout.writelines(_answer(raw, asked))
        stdout.write(b"\n")
        stdout.flush()
        gc.collect()
    os._exit(0)


def _next_line(stdin: BinaryIO) -> bytes:
    """Return the next line; end the process where none comes for long."""
    timer = threading.Timer(IDLE_S, os._exit, (0,))
    timer.start()
    line = stdin.readline()
    timer.cancel()
    return line


def _answer(raw: bytes, asked: dict[str, Any]) -> Iterable[bytes]:
    try:
        for part in _encoded(import_workflow(raw, **asked)):
            yield orjson.dumps(part) + b"\n"
    except UnreadableWorkflow as exc:
        yield orjson.dumps({"refused": exc.reason}) + b"\n"


def _bound_memory() -> None:
    with suppress(
        ImportError, OSError, ValueError
    ):  # where a system has no such limits, time is one
        import resource

        os.nice(5)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))


def _bound_computing() -> None:
    """Give the process so much computing for the next file."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        spent = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(spent.ru_utime + spent.ru_stime) + 1 + CPU_LIMIT_S
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
