"""Errors of the data room.

    SourceError
    ├── GraphNotFound        no such graph in this workspace
    ├── GraphExists          a graph of that key exists already
    ├── BadDocument          a document does not have the shape it must have
    ├── InvalidMutation      a mutation contradicts itself or the graph
    ├── RevisionConflict     the graph changed since it was read
    ├── RecordConflict       the record changed since it was read
    ├── UnknownIndexField    a record query names a field its kind does not index
    ├── BadUseValue          a value to look up is empty or too long
    ├── InvalidDatabaseUrl   the address of a database cannot be understood
    ├── DatabaseBusy         another process locks the database for too long
    ├── DatabaseDamaged      the file is not a readable database
    ├── DatabaseOutdated     the file is of an older schema
    ├── UpgradeNeeded        the database on a server is of an older program
    ├── DatabaseVersion      the file was made by a newer or unknown version
    ├── SourceTimeout        the store did not answer in time
    ├── SourceUnavailable    the store cannot be reached
    │   ├── SourceBusy           the documents are locked by other writers
    │   ├── SourceRefused        the server answers, and refuses: a sign-in, a right, a full disk
    │   └── DatabaseUnprepared   the server has no such database, or it was not set up
    └── InstructionError     an instruction cannot be applied to its document
        ├── InstructionMalformed   it lacks an operand, or has one of the wrong kind
        ├── PathNotFound           its path does not exist
        ├── WrongTarget            the value at its path has another type
        ├── IndexOutOfRange        its index or offset is outside the array or text
        └── ForbiddenPath          its path must never be written

Each error carries facts as attributes. Its text says what failed, where, and how to fix it.
Adapters translate the exceptions of their libraries into these, `from exc`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Matches up to the last `@`: a password without percent-encoding may contain any character.
_LOGIN = re.compile(r"^([a-z+]*:?/{0,2}).*@", re.DOTALL)
_PASSWORD_OPTION = re.compile(r"([?&][a-z_]*password=)[^&]*", re.IGNORECASE | re.DOTALL)


class SourceError(Exception):
    """Base class of the errors of `datasources`."""


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
    """`keys` are the keys of the invalid documents, `reason` describes the problem."""

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
    """`expected` None means that no record was expected."""

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
        # An address may contain a password.
        shown = _PASSWORD_OPTION.sub(r"\1…", _LOGIN.sub(r"\1", url))
        forms = (
            "sqlite:PATH, memory:, postgres://USER:PASSWORD@HOST/DB"
            " or arango+http://USER:PASSWORD@HOST:8529/DATABASE"
        )
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
    """A file of an older schema. It is not opened or changed, so no data is lost."""

    def __init__(self, *, path: str, found: int, supported: int) -> None:
        self.path = path
        self.found = found
        self.supported = supported
        super().__init__(
            f"{path} has schema version {found}, this program needs {supported}: export its graphs with the"
            " program that made it (`nodius export GRAPH`), and import them into a new file"
        )


class UpgradeNeeded(SourceError):
    """A database on a server that an older program set up. It can be upgraded in place."""

    def __init__(self, *, source: str) -> None:
        self.source = source
        super().__init__(f"{source} was set up by an older program; `nodius db upgrade` updates it")


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
    """The source answers, but other writers lock the documents asked for."""


class SourceRefused(SourceUnavailable):
    """The source answers and refuses the request: trying again does not help."""


class DatabaseUnprepared(SourceUnavailable):
    """`code` is the server's error number, 0 if a part of the setup is missing without an error."""

    def __init__(self, *, source: str, code: int = 0) -> None:
        self.code = code
        super().__init__(source=source, reason="it is not set up; `nodius db init` does that")


class InstructionError(SourceError):
    """`op` is the name of the operation, `path` its target, such as `data.items.0`."""

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
