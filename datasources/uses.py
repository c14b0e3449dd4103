"""Finds references of a node to things outside its graph, such as credentials, URLs or tables.

Stores keep each reference as a folded entry, `kind:value`, and look it up by equality; values are
never interpreted as patterns. A URL is entered with each of its parent paths, so that
`api.example.com/v1` finds `https://api.example.com/v1/users?limit=5`. Settings of a node are
recognised by their names, references in texts and code by their form. Notes are skipped, because
they contain text for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from datasources.errors import BadUseValue
from datasources.types import Node

UseKind = Literal["credential", "url", "host", "table", "workflow", "queue", "file", "model"]
USE_KINDS: Final[tuple[UseKind, ...]] = get_args(UseKind)
Path = tuple[str, ...]

MAX_VALUE: Final = 500  # characters; longer values are neither entered nor looked up
MAX_ENTRIES: Final = 200
MAX_TEXT: Final = 200_000
MAX_PATH_PARTS: Final = 8
_NOTE: Final = "note"

# Kind of reference in a setting, by the lower-case letters of its name.
_NAMES: Final[Mapping[str, UseKind]] = {
    name: kind
    for kind, names in cast(
        dict[UseKind, str],
        {
            "credential": "credential credentialid credentialname nodecredentialtype genericauthtype",
            "url": "url uri baseurl endpoint webhookurl feedurl apiurl serverurl requesturl",
            "host": "host hostname server broker",
            "table": "table tablename tableid tableidorname datatableid collection collectionname"
            " qdrantcollection milvuscollection pineconeindex redisindex indexname base baseid database"
            " databaseid sheetname",
            "workflow": "workflow workflowid workflowname subflow subworkflow",
            "queue": "queue queuename queueurl topic topics topicname topicarn exchange",
            "file": "file filename filepath fileid fileselector path documentid folderid foldertowatch"
            " filetowatch bucket bucketname",
            "model": "model modelname modelid chatmodel embeddingmodel deployment deploymentname",
        },
    ).items()
    for name in names.split()
}
_OWN_WORDS: Final = frozenset({("data", "name"), ("data", "notes")})
# Fields of a setting that is an object: their kind is decided by the name of the setting.
_WRAPPED: Final = frozenset({"value", "cachedResultName", "cachedResultUrl", "name", "id"})

_ADDRESS: Final = re.compile(
    r"\b[a-z][a-z0-9+.\-]{1,15}://[^\s\"'`<>\\{}|^\[\]()]{1,2000}", re.IGNORECASE
)
_PLAIN: Final = re.compile(r"[^\s{}]+(?: [^\s{}]+){0,9}")
_NAME: Final = r"[\"`\[]?([A-Za-z_][\w$]*(?:[\"`\]]?\.[\"`\[]?[A-Za-z_][\w$]*){0,3})"
_STATEMENT: Final = re.compile(
    r"\b(?:SELECT|INSERT\s+INTO|DELETE\s+FROM|MERGE\s+INTO|UPDATE\s+\S{1,200}\s+SET"
    r"|(?:CREATE|ALTER|DROP|TRUNCATE)\s+TABLE)\b",
    re.IGNORECASE,
)
_IN_STATEMENT: Final = re.compile(
    rf"\b(?:FROM|JOIN|INTO|UPDATE|TABLE(?:\s+IF(?:\s+NOT)?\s+EXISTS)?)\s+(?:ONLY\s+)?{_NAME}",
    re.IGNORECASE,
)
_VERB: Final = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|MERGE|CREATE|ALTER|DROP|TRUNCATE)\b")
# Lower-case SQL verbs are ordinary words, except in code and at the start of a text.
_FIRST_VERB: Final = re.compile(rf"[=\s(]*{_VERB.pattern}", re.IGNORECASE)
_FILLING: Final = """a all an any dual each if it its lateral my not one only our select set that the their
them these this those unnest values what where which with you your"""
_NO_TABLE: Final = frozenset(_FILLING.split())
# References in calls and fields of code: kind, text that must occur, and pattern.
_CALLED: Final[tuple[tuple[UseKind, str, re.Pattern[str]], ...]] = (
    (
        "table",
        "(",
        re.compile(r"\.(?:collection|from|table|into)\(\s*[\"'`]([\w.$\-]{1,200})[\"'`]"),
    ),
    (
        "queue",
        "(",
        re.compile(
            r"\.(?:sendToQueue|assertQueue|publish|subscribe|consume)\(\s*[\"'`]([^\s\"'`]{1,200})[\"'`]"
        ),
    ),
    (
        "file",
        "File",
        re.compile(r"\b(?:read|write|append)File(?:Sync)?\(\s*[\"'`]([^\"'`\n]{1,300})[\"'`]"),
    ),
    ("file", "open(", re.compile(r"\bopen\(\s*[\"'`]([^\"'`\n]{1,300})[\"'`]")),
    (
        "model",
        "model",
        re.compile(
            r"\bmodel(?:Name|Id)?\\?[\"']?\s*[:=]\s*\\?[\"'`]([^\s\"'`\\{}]{2,200})\\?[\"'`]"
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One reference of a node. `path` is the path of the text that contains it."""

    kind: UseKind
    value: str
    path: Path


def uses_of(node: Node) -> Iterator[Use]:
    """Yields the references of a node as written; several texts may contain the same one."""
    if node.type == _NOTE:
        return
    if node.type.startswith("subflow:"):
        yield Use(kind="workflow", value=node.type.removeprefix("subflow:"), path=("type",))
    for path, text in node_texts(node):
        if path in _OWN_WORDS or not 1 < len(text) <= MAX_TEXT:
            continue
        kind = _kind_of(path, node)
        references: dict[tuple[UseKind, str], None] = {}
        if len(text) > 6:
            references = dict.fromkeys(
                _in_text(text, is_code=path[-1] == "process" or path[-1].endswith("Code"))
            )
        has_table = any(use_kind == "table" for use_kind, _ in references)
        if kind and (setting := _plain(text, kind)) and not has_table:
            references[kind, setting] = None
        for use_kind, value in references:
            yield Use(kind=use_kind, value=value, path=path)


def entries_of(node: Node) -> list[str]:
    """Returns the entries under which a node is found, in order, at most `MAX_ENTRIES`."""
    entries: dict[str, None] = {}
    for use in uses_of(node):
        for entry in _entries(use):
            entries[entry] = None
            if len(entries) >= MAX_ENTRIES:
                return sorted(entries)
    return sorted(entries)


def entries_for(value: str, kind: UseKind | None = None) -> list[str]:
    """Returns the entries to look up for a value. A node that refers to it has one of them.

    Raises: BadUseValue if the value is empty or longer than `MAX_VALUE`.
    """
    text = value.strip()
    if not 0 < len(text) <= MAX_VALUE:
        raise BadUseValue(length=len(text), most=MAX_VALUE)
    return [f"{one}:{_folded(text, one)}" for one in ((kind,) if kind else USE_KINDS)]


def matches(use: Use, entries: frozenset[str]) -> bool:
    """Returns True if a reference has one of the entries."""
    return not entries.isdisjoint(_entries(use))


def _entries(use: Use) -> Iterator[str]:
    if len(use.value) > MAX_VALUE:
        return
    folded = _folded(use.value, use.kind)
    yield f"{use.kind}:{folded}"
    if use.kind == "table" and "." in folded:
        yield f"table:{folded.rpartition('.')[2]}"
    if use.kind != "url":
        return
    host, *parts = folded.split("/")
    for end in range(min(len(parts), MAX_PATH_PARTS)):
        yield "url:" + "/".join([host, *parts[:end]])
    if "://" in use.value and host:
        yield f"host:{host}"
        if ":" in host:
            yield f"host:{host.partition(':')[0]}"


def _folded(value: str, kind: UseKind) -> str:
    """Returns the form of a value for comparison: URLs without scheme, login, query, last slash."""
    folded = value.casefold().encode("utf-8", "replace").decode()  # replaces lone surrogates
    if kind in ("url", "host"):
        folded = re.split(r"[?#]", folded.partition("://")[2] or folded, maxsplit=1)[0]
        host, slash, path = folded.partition("/")
        folded = (host.rpartition("@")[2] + slash + path).rstrip("/") or folded
    if kind == "table":
        folded = re.sub(r"[\"`\[\]]", "", folded)
    return folded


def node_texts(node: Node) -> Iterator[tuple[Path, str]]:
    """Yields the texts of a node's code and data with their paths, in any order."""
    if node.process:
        yield ("process",), node.process
    yield from texts_in(node.data, ("data",))


def texts_in(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yields the texts of the JSON value at a path, each with its own path, in any order."""
    left: list[tuple[Path, Any]] = [(path, value)]
    while left:
        path, value = left.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            left += [((*path, key), item) for key, item in cast(dict[str, Any], value).items()]
        elif isinstance(value, list | tuple):
            left += [((*path, str(at)), item) for at, item in enumerate(cast(list[Any], value))]


def _kind_of(path: Path, node: Node) -> UseKind | None:
    """Returns the kind of reference in a setting, by its name or that of the enclosing setting."""
    if path[1:2] == ("credentials",):
        return "credential"
    for part in reversed(path[1:]):
        if part in _WRAPPED or part.isdigit():
            continue
        kind = _kind_named(part)
        return (
            None if kind == "file" and part == "path" and "webhook" in node.type.lower() else kind
        )
    return None


def _kind_named(name: str) -> UseKind | None:
    return _NAMES.get(re.sub(r"[^a-z]", "", name.lower()))


def _plain(text: str, kind: UseKind) -> str | None:
    """Returns the value of a setting, None for an expression or a value that is not a name."""
    value = text.removeprefix("=").strip()
    if "://" in value and kind != "queue":
        return None
    return value if len(value) <= MAX_VALUE and _PLAIN.fullmatch(value) else None


def _in_text(text: str, *, is_code: bool) -> Iterator[tuple[UseKind, str]]:
    """Yields the unambiguous references in a text: URLs, SQL tables, and arguments of calls."""
    if "://" in text:
        for match in _ADDRESS.finditer(text):
            yield "url", match[0].rstrip(".,;:!?*_")
    for kind, hint, pattern in _CALLED:
        if hint in text:
            for match in pattern.finditer(text):
                yield kind, match[1]
    if is_code or _VERB.search(text) or _FIRST_VERB.match(text):
        yield from _tables(text)


def _tables(text: str) -> Iterator[tuple[UseKind, str]]:
    if not _STATEMENT.search(text):
        return
    for match in _IN_STATEMENT.finditer(text):
        name = re.sub(r"[\"`\[\]]", "", match[1])
        if name.lower() not in _NO_TABLE:
            yield "table", name
