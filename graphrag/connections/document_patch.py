"""Puts the fields that were changed here onto a document as a server holds it.

A graph holds placeholders where the server's document has secrets, so no document that is written
from a graph may be sent as it is. Three documents are compared: the server's (`current`), the same
without secrets as it was before the changes (`before`) and with them (`after`). Only what differs
between the last two is written into the first; all else of it stays, secrets included.

Entries of lists belong together if they have the same id. Lists without ids are compared entry by
entry, in order. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, cast

import orjson

from graphrag.importers.json_values import Json, as_dict, as_list, as_text
from graphrag.importers.secrets import without_secrets
from tools.secret_texts import PLACEHOLDER

MAX_ALIGNED = 2_000
"""Entries of a list without ids that are aligned with another list; a longer one is taken whole."""


class Missing:
    """The value of a field that is not there."""

    def __repr__(self) -> str:
        return "(missing)"


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class EntryId:
    """A place in a path: the entry of a list that has this id."""

    id: str


Path = tuple[str | EntryId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedField:
    """A field and its values without secrets; MISSING where it is not there."""

    path: Path
    before: Any
    after: Any


class PatchConflict(Exception):
    """Fields at `paths` were changed on the server too, to other values."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        super().__init__(", ".join(map(shown_path, paths)))


class SecretInChange(Exception):
    """Changed fields at `paths` hold the placeholder of a secret."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        super().__init__(", ".join(map(shown_path, paths)))


def shown_path(path: Path, names: Mapping[str, str] | None = None) -> str:
    """Returns a path as people read it, as `nodes › Fetch › parameters › url`.

    `names` are those of entries of lists, by id.
    """
    known = names or {}
    return " › ".join(
        known.get(part.id, part.id) if isinstance(part, EntryId) else part for part in path
    )


def entry_names(*documents: Any) -> dict[str, str]:
    """Returns the names of the entries of a document's lists by id, as people know them."""
    names: dict[str, str] = {}
    for document in documents:
        parts = [document, *(as_dict(document) or {}).values()]
        for entries in filter(None, map(_by_id, parts)):
            for key, entry in entries.items():
                fields = as_dict(entry) or {}
                name = as_text(fields.get("name")) or as_text(fields.get("label"))
                if name:
                    names[key] = name
    return names


def field_changes(before: Any, after: Any, path: Path = ()) -> list[PatchedField]:
    """Returns the smallest fields that differ. A list without ids is one field."""
    if is_same(before, after):
        return []
    fields, later = as_dict(before), as_dict(after)
    if fields is not None and later is not None:
        return [
            change
            for name in _names(fields, later)
            for change in field_changes(
                fields.get(name, MISSING), later.get(name, MISSING), (*path, name)
            )
        ]
    entries, now = _by_id(before), _by_id(after)
    if entries is not None and now is not None:
        return [
            change
            for key in _names(entries, now)
            for change in field_changes(
                entries.get(key, MISSING), now.get(key, MISSING), (*path, EntryId(key))
            )
        ]
    return [PatchedField(path=path, before=before, after=after)]


def value_at(document: Any, path: Path) -> Any:
    """Returns the value at a path, MISSING where there is none."""
    value = document
    for part in path:
        if isinstance(part, EntryId):
            value = (_by_id(value) or {}).get(part.id, MISSING)
        else:
            value = (as_dict(value) or {}).get(part, MISSING)
    return value


def with_value(document: Any, path: Path, value: Any) -> Any:
    """Returns a document with another value at a path that it has."""
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(part, EntryId):
        return [
            with_value(entry, rest, value)
            if as_text((as_dict(entry) or {}).get("id")) == part.id
            else entry
            for entry in as_list(document) or ()
        ]
    fields = as_dict(document) or {}
    return {**fields, part: with_value(fields.get(part), rest, value)}


def patched(current: Any, before: Any, after: Any, *, clean: bool = True) -> Any:
    """Returns the server's document with the changes from `before` to `after`.

    `clean`: `before` and `after` are without secrets; otherwise they hold them as `current` does.
    Raises: PatchConflict, SecretInChange.
    """
    patch = _DocumentPatch(holds_secrets=not clean)
    result = patch.value(current, without_secrets(current) if clean else current, before, after, ())
    if patch.conflicts:
        raise PatchConflict(patch.conflicts)
    if patch.secrets:
        raise SecretInChange(patch.secrets)
    return result


def is_same(one: Any, other: Any) -> bool:
    """Returns whether two JSON values are the same to a program in JavaScript, which has one kind
    of numbers.
    """
    if one is MISSING or other is MISSING:
        return one is other
    fields, others = as_dict(one), as_dict(other)
    if fields is not None and others is not None:
        return fields.keys() == others.keys() and all(
            is_same(value, others[name]) for name, value in fields.items()
        )
    items, more = as_list(one), as_list(other)
    if items is not None and more is not None:
        return len(items) == len(more) and all(map(is_same, items, more))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or _as_double(one) == _as_double(other)
    return type(one) is type(other) and one == other


def value_digest(value: Any) -> str:
    """Returns a hash of a JSON value, "" of MISSING."""
    if value is MISSING:
        return ""
    content = orjson.dumps(_plain(value), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _as_double(number: float) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def _plain(value: Any) -> Any:
    """Returns a value whose numbers are written as JavaScript reads them."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        double = _as_double(value)
        if double is None:
            return str(value)
        return int(double) if double.is_integer() and abs(double) < 2**53 else double
    if (fields := as_dict(value)) is not None:
        return {name: _plain(item) for name, item in fields.items()}
    if (items := as_list(value)) is not None:
        return [_plain(item) for item in items]
    return value


def _names(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


def _by_id(value: Any) -> dict[str, Any] | None:
    """Returns the entries of a list by id, None where not every entry has one of its own."""
    items = as_list(value)
    if items is None:
        return None
    entries: dict[str, Any] = {}
    for item in items:
        key = as_text((as_dict(item) or {}).get("id"))
        if not key or key in entries:
            return None
        entries[key] = item
    return entries


def holds_placeholder(value: Any) -> bool:
    """Returns whether a text or a name inside a value holds the placeholder of a secret."""
    if isinstance(value, str):
        return PLACEHOLDER in value
    if (fields := as_dict(value)) is not None:
        return any(PLACEHOLDER in name or holds_placeholder(item) for name, item in fields.items())
    return any(map(holds_placeholder, as_list(value) or ()))


class _DocumentPatch:
    """Collects what stands against a patch while it is made."""

    def __init__(self, *, holds_secrets: bool) -> None:
        self.conflicts: list[Path] = []
        self.secrets: list[Path] = []
        self._holds_secrets = holds_secrets

    def value(self, current: Any, clean: Any, before: Any, after: Any, path: Path) -> Any:
        """Returns the value to write; MISSING for a field that goes.

        `clean` is `current` without secrets.
        """
        if is_same(before, after) or is_same(clean, after):
            return current
        parts = [current, clean, before, after]
        if (objects := _all(parts, as_dict)) is not None:
            return self._entries(objects, path, lambda name: name)
        if (lists := _all(parts, _by_id)) is not None:
            entries = self._entries(lists, path, EntryId)
            return [entries[key] for key in _order(lists, entries)]
        if not is_same(clean, before):
            self.conflicts.append(path)
            return current
        return self._list(parts, path) if _all(parts, as_list) else self._new(after, path)

    def _entries(
        self, parts: Sequence[Json], path: Path, place: Callable[[str], str | EntryId]
    ) -> Json:
        current, clean, before, after = parts
        result: Json = {}
        for name in dict.fromkeys([*current, *after]):
            value: Any = self.value(
                current.get(name, MISSING),
                clean.get(name, MISSING),
                before.get(name, MISSING),
                after.get(name, MISSING),
                (*path, place(name)),
            )
            if value is not MISSING:
                result[name] = value
        for name in before.keys() - current.keys() - after.keys():
            if name in clean:  # its name on the server holds a secret
                self.secrets.append((*path, place(name)))
        return result

    def _list(self, parts: Sequence[Any], path: Path) -> list[Any]:
        """Returns a list without ids; entries that stay are those of the server."""
        current, clean, before, after = (cast(list[Any], part) for part in parts)
        if max(len(before), len(after)) > MAX_ALIGNED or len(current) != len(before):
            return self._new(after, path)
        marks = [[value_digest(item) for item in items] for items in (before, after)]
        result: list[Any] = []
        for code, i, i_end, j, j_end in SequenceMatcher(None, *marks, autojunk=False).get_opcodes():
            if code == "equal":
                result += current[i:i_end]
                continue
            pairs = min(i_end - i, j_end - j)
            result += [
                self.value(current[i + n], clean[i + n], before[i + n], after[j + n], path)
                for n in range(pairs)
            ]
            result += [self._new(item, path) for item in after[j + pairs : j_end]]
        return result

    def _new(self, value: Any, path: Path) -> Any:
        if not self._holds_secrets and holds_placeholder(value):
            self.secrets.append(path)
        return value


def _all(parts: Sequence[Any], read: Callable[[Any], Any]) -> list[Any] | None:
    """Returns all parts read, None where one cannot be."""
    values = [read(part) for part in parts]
    return None if any(value is None for value in values) else values


def _order(lists: Sequence[Json], entries: Json) -> list[str]:
    """Returns the ids of a list in the server's order; new ones follow the entry before them."""
    current, _, _, after = lists
    order = [key for key in current if key in entries]
    place = 0
    for key in after:
        if key in current:
            place = order.index(key) + 1 if key in order else place
        elif key in entries:
            order.insert(place, key)
            place += 1
    return order
