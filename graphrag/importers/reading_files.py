"""Reads the files of imports: small ones in a thread, others in a process that can be killed.

The process protects others from files that are slow or large: its time and memory are limited. Two
files are read at once, some more wait, and further ones are refused. A process is kept for some
minutes: starting Python takes a second, longer than reading most files.
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
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final

import orjson
from pydantic import BaseModel, TypeAdapter

from datasources.types import Edge, Graph, Node, NodeTypeConfig, parse_document
from graphrag.importers import ImportReport, ImportResult, UnreadableWorkflow, import_workflow
from graphrag.workers import Workers, resident


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLimits:
    """Limits of the processes that read files. Units: bytes, seconds."""

    # Files up to this size are read in this process: their size bounds the time.
    small_bytes: int = 256 * 1024
    cpu_s: int = 60
    time_s: int = 180
    memory_bytes: int = 2 << 30
    # Processes that read at the same time.
    at_once: int = 2
    # Files that wait for a process.
    waiting: int = 8
    # Time after which an idle process ends.
    idle_s: int = 300
    # A process that holds more memory after a file ends at once.
    idle_bytes: int = 400 << 20
    # Documents sent, and read, in one line.
    part: int = 200


READER_LIMITS: Final = ReaderLimits()

# Exit codes of SIGKILL and SIGXCPU, with which a system ends a process that exceeded its CPU time.
_OUT_OF_TIME = (-9, -24)

_START = "import sys; sys.path[:] = sys.argv[1:]; from graphrag.importers.reading_files import main; main()"
_REPORT = TypeAdapter(ImportReport)


class _FilePart(BaseModel):
    nodes: list[Node] = []
    edges: list[Edge] = []


class FileReaders:
    """Reads files in processes that are kept for further files. `program` is the code that they
    run.
    """

    def __init__(
        self,
        program: str = _START,
        *,
        time_limit_s: float = READER_LIMITS.time_s,
        at_once: int = READER_LIMITS.at_once,
        waiting: int = READER_LIMITS.waiting,
    ) -> None:
        self._command = [sys.executable, "-c", program, *sys.path]
        self._time_limit_s = time_limit_s
        self._workers = Workers(threads=at_once, waiting=waiting)
        self._idle: list[subprocess.Popen[bytes]] = []

    async def read(
        self, raw: bytes, *, file_name: str, workspace: str, graph_key: str | None = None
    ) -> ImportResult:
        """Reads a workflow of any known format. Raises: UnreadableWorkflow, WorkersBusy."""
        if len(raw) <= READER_LIMITS.small_bytes:
            return await self._workers.run(
                import_workflow, raw, file_name=file_name, workspace=workspace, graph_key=graph_key
            )
        request = {"file_name": file_name, "workspace": workspace, "graph_key": graph_key}
        used: list[subprocess.Popen[bytes] | None] = []
        try:
            return await self._workers.run(self._read_apart, raw, request, used)
        except asyncio.CancelledError:
            used.append(None)
            for process in filter(None, used):
                process.kill()
            raise

    def close(self) -> None:
        """Ends the idle processes."""
        while self._idle:
            _end(self._idle.pop())

    def _read_apart(
        self, raw: bytes, request: dict[str, Any], used: list[subprocess.Popen[bytes] | None]
    ) -> ImportResult:
        """Reads a file in a process, which is added to `used`. None in `used` means that the
        request was cancelled.
        """
        while True:
            process, is_new = self._process()
            used.append(process)
            if None in used:
                process.kill()
            lines, is_late = self._send(process, raw, request)
            if lines and lines[-1] == b"\n":
                self._idle.append(process)
                return _decoded(iter(lines[:-1]), request["file_name"])
            code = _end(process)
            # An idle process may have ended by itself; then another one reads the file.
            if lines or is_new or is_late or None in used:
                raise UnreadableWorkflow(
                    file=request["file_name"], reason=self._reason(code, is_late=is_late)
                )

    def _process(self) -> tuple[subprocess.Popen[bytes], bool]:
        """Returns a process and whether it was started for this call."""
        while self._idle:
            process = self._idle.pop()
            if process.poll() is None:
                return process, False
            _end(process)
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        ), True

    def _send(
        self, process: subprocess.Popen[bytes], raw: bytes, request: dict[str, Any]
    ) -> tuple[list[bytes], bool]:
        """Sends a file to a process. Returns the lines of its answer, and whether it was killed at
        the time limit.
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
                process.stdin.write(orjson.dumps({**request, "bytes": len(raw)}) + b"\n")
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
            return f"reading it takes longer than {self._time_limit_s} s; split the workflow"
        if code in _OUT_OF_TIME:
            return f"reading it takes more than {READER_LIMITS.cpu_s} s of CPU time; split the workflow"
        gib = READER_LIMITS.memory_bytes >> 30
        return f"reading it takes more than {gib} GiB of memory; split the workflow"


def _end(process: subprocess.Popen[bytes]) -> int:
    """Ends a process and returns its exit code."""
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
    """Reads a workflow of any known format. Raises: UnreadableWorkflow, WorkersBusy."""
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
        for start in range(0, len(documents), READER_LIMITS.part):
            yield {
                name: [
                    document.to_document()
                    for document in documents[start : start + READER_LIMITS.part]
                ]
            }


def main(stdin: BinaryIO = sys.stdin.buffer, stdout: BinaryIO = sys.stdout.buffer) -> None:
    """Runs a reader process: reads requests with files, writes documents followed by an
    empty line.
    """
    _bound_memory()
    gc.disable()  # the objects made from a file are needed until it is answered
    while resident() < READER_LIMITS.idle_bytes and (head := _next_line(stdin)):
        request = orjson.loads(head)
        raw = stdin.read(request.pop("bytes"))
        _bound_computing()
        stdout.writelines(_answer(raw, request))
        stdout.write(b"\n")
        stdout.flush()
        gc.collect()
    os._exit(0)


def _next_line(stdin: BinaryIO) -> bytes:
    """Returns the next line. Ends the process if none arrives within READER_LIMITS.idle_s."""
    timer = threading.Timer(READER_LIMITS.idle_s, os._exit, (0,))
    timer.start()
    line = stdin.readline()
    timer.cancel()
    return line


def _answer(raw: bytes, request: dict[str, Any]) -> Iterable[bytes]:
    try:
        for part in _encoded(import_workflow(raw, **request)):
            yield orjson.dumps(part) + b"\n"
    except UnreadableWorkflow as exc:
        yield orjson.dumps({"refused": exc.reason}) + b"\n"


def _bound_memory() -> None:
    # Some systems have no such limit; then the time limit alone applies.
    with suppress(ImportError, OSError, ValueError):
        import resource

        os.nice(5)
        resource.setrlimit(
            resource.RLIMIT_AS, (READER_LIMITS.memory_bytes, READER_LIMITS.memory_bytes)
        )


def _bound_computing() -> None:
    """Allows the process READER_LIMITS.cpu_s more of CPU time, for the next file."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        spent = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(spent.ru_utime + spent.ru_stime) + 1 + READER_LIMITS.cpu_s
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
