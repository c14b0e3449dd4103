"""Errors of the data room.

    SourceError
    ├── GraphNotFound        no such graph in this workspace
    ├── GraphExists          a graph of that key exists already
    ├── BadDocument          a document does not have the shape it must have
    ├── InvalidMutation      a mutation contradicts itself or the graph
    ├── RevisionConflict     the graph changed since it was read
    ├── RecordConflict       the record changed since it was read
    ├── UnknownIndexField    a record query names a field its kind does not index
    ├── BadUseValue          a value that nothing can be looked up by: empty, or too long
    ├── InvalidDatabaseUrl   the address of a database cannot be understood
    ├── DatabaseBusy         another process holds the database for too long
    ├── DatabaseDamaged      the file is not a readable database
    ├── DatabaseOutdated     the file is of an older schema
    ├── DatabaseVersion      the file was made by a newer or unknown version
    ├── SourceTimeout        the store did not answer in time
    ├── SourceUnavailable    the store cannot be reached
    │   ├── SourceBusy           others hold what was asked for
    │   └── DatabaseUnprepared   the server has no such database, or it was not set up
    └── InstructionError     an instruction cannot be carried out on its document
        ├── InstructionMalformed   it lacks an operand, or has one of the wrong kind
        ├── PathNotFound           its path leads nowhere
        ├── WrongTarget            what stands at its path is of another type
        ├── IndexOutOfRange        its index or offset is outside the array or text
        └── ForbiddenPath          its path must never be written

Each carries facts as attributes; its text says what, where and what to do. Adapters translate
their library's exceptions into these, `from exc`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LOGIN = re.compile(r"^([a-z+]*:?/{0,2}).*@", re.DOTALL)
"""Up to the last `@`: a password that should have been percent-encoded may hold anything."""


class SourceError(Exception):
    """Base of everything this room raises on purpose."""


class GraphNotFound(SourceError):
    def __init__(self, *, graph_key: str) -> None:
        self.graph_key = graph_key
        super().__init__(f"no graph {graph_key!r} in this workspace")


class GraphExists(SourceError):
    def __init__(self, *, graph_key: str) -> None:
        self.graph_key = graph_key
        super().__init__(f"the graph key {graph_key!r} is taken; choose another key")


class BadDocument(SourceError):
    def __init__(self, *, collection: str, key: str, field: str, reason: str) -> None:
        self.collection = collection
        self.key = key
        self.field = field
        self.reason = reason
        super().__init__(f"{collection}/{key}: field {field!r}: {reason}")


class InvalidMutation(SourceError):
    """`keys` are the documents at fault, `reason` says what is wrong with them."""

    def __init__(self, *, graph_key: str, reason: str, keys: Sequence[str] = ()) -> None:
        self.graph_key, self.reason, self.keys = graph_key, reason, tuple(keys)
        shown = ", ".join(self.keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
        super().__init__(f"graph {graph_key!r}: {reason}" + (f": {shown}" if shown else ""))


class RevisionConflict(SourceError):
    def __init__(self, *, graph_key: str, expected: int, actual: int) -> None:
        self.graph_key = graph_key
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"graph {graph_key!r} is at revision {actual}, not {expected}: read it again and retry"
        )


class RecordConflict(SourceError):
    """`expected` None means: it should not have existed."""

    def __init__(self, *, kind: str, key: str, expected: str | None) -> None:
        self.kind = kind
        self.key = key
        self.expected = expected
        wanted = "exists already" if expected is None else f"is no longer at version {expected}"
        super().__init__(f"record {kind}/{key} {wanted}")


class UnknownIndexField(SourceError):
    def __init__(self, *, kind: str, field: str, known: Sequence[str]) -> None:
        self.kind, self.field, self.known = kind, field, tuple(known)
        super().__init__(
            f"records of kind {kind!r} are not indexed by {field!r}; use {', '.join(known)}"
        )


class BadUseValue(SourceError):
    def __init__(self, *, length: int, most: int) -> None:
        self.length = length
        self.most = most
        super().__init__(f"the value has {length:,} characters; use 1 to {most}")


class InvalidDatabaseUrl(SourceError):
    def __init__(self, *, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        shown = _LOGIN.sub(r"\1", url)  # an address may hold a password
        forms = "sqlite:PATH, memory: or arango+http://USER:PASSWORD@HOST:8529/DATABASE"
        super().__init__(f"database address {shown!r}: {reason}; use {forms}")


class DatabaseBusy(SourceError):
    def __init__(self, *, path: str, seconds: float) -> None:
        self.path = path
        self.seconds = seconds
        super().__init__(f"{path} was held by another process for {seconds:g} s; try again")


class DatabaseDamaged(SourceError):
    def __init__(self, *, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"{path} is not a readable database ({reason}); restore a copy or move it away"
        )


class DatabaseVersion(SourceError):
    def __init__(self, *, path: str, found: int, supported: int) -> None:
        self.path = path
        self.found = found
        self.supported = supported
        super().__init__(
            f"{path} has schema version {found}, this program knows up to {supported}: upgrade the program"
        )


class DatabaseOutdated(SourceError):
    """A file of an older schema. It is refused as it is: nothing in it is lost."""

    def __init__(self, *, path: str, found: int, supported: int) -> None:
        self.path = path
        self.found = found
        self.supported = supported
        super().__init__(
            f"{path} has schema version {found}, this program needs {supported}: export its graphs with the"
            " program that made it (`nodius export GRAPH`), and import them into a new file"
        )


class SourceTimeout(SourceError):
    def __init__(self, *, source: str, seconds: float) -> None:
        self.source = source
        self.seconds = seconds
        super().__init__(f"{source} did not answer within {seconds:g} s")


class SourceUnavailable(SourceError):
    def __init__(self, *, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source}: {reason}")


class SourceBusy(SourceUnavailable):
    """It answers, but what was asked for is held by others."""


class DatabaseUnprepared(SourceUnavailable):
    """`code` is the server's error number, 0 where nothing failed but something is missing."""

    def __init__(self, *, source: str, code: int = 0) -> None:
        self.code = code
        super().__init__(source=source, reason="it is not set up; `nodius db init` does that")


class InstructionError(SourceError):
    """`op` is the operation's name, `path` where it was to work, as `data.items.0`."""

    def __init__(self, *, op: str, path: Sequence[str], reason: str) -> None:
        self.op, self.path, self.reason = op, tuple(path), reason
        shown = ".".join(self.path)
        where = f"{shown[:200]!r}" if self.path else "the whole document"
        super().__init__(f"{op} at {where}: {reason}")


class InstructionMalformed(InstructionError): ...


class PathNotFound(InstructionError): ...


class WrongTarget(InstructionError): ...


class IndexOutOfRange(InstructionError): ...


class ForbiddenPath(InstructionError): ...
