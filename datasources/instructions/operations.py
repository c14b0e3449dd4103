"""Applies an instruction to a document, which is never changed, and works out what undoes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, cast

from datasources.errors import (
    ForbiddenPath,
    IndexOutOfRange,
    InstructionError,
    InstructionMalformed,
    WrongTarget,
)
from datasources.instructions.instruction import Instruction, Op, read_instruction
from datasources.instructions.paths import MISSING, POLLUTING, Place, find, json_fault, kind_of

IDENTITY_FIELDS = frozenset(("_key", "graphKey", "sheet"))
"""What says which node or edge a document is and where: pass it as `protected` for those."""


def apply_instruction(
    document: Any,
    instruction: Instruction | Mapping[str, Any],
    *,
    protected: Set[str] = frozenset(),
) -> Any:
    """Return the document after the instruction; what did not change is shared with the one given.

    `protected` are fields of the document that may neither be written nor vanish.
    Raises: InstructionMalformed, PathNotFound, WrongTarget, IndexOutOfRange, ForbiddenPath.
    """
    read = read_instruction(instruction)
    for path in (read.p, read.d or ()):
        if path and path[0] in protected:
            raise ForbiddenPath(
                op=read.op.name, path=path, reason=f"{path[0]!r} may not be written"
            )
    operands = [read.v, read.r, *read.p, *(read.d or ())]
    fault = json_fault(operands)
    if fault:
        kind = ForbiddenPath if "__proto__" in fault else InstructionMalformed
        raise kind(op=read.op.name, path=read.p, reason=fault)
    after = _apply(document, read)
    for name in protected:
        if _field(document, name) != _field(after, name):
            raise ForbiddenPath(op=read.op.name, path=read.p, reason=f"{name!r} may not be written")
    return after


def _field(document: Any, name: str) -> Any:
    return (
        cast(dict[str, Any], document).get(name, MISSING) if isinstance(document, dict) else MISSING
    )


def _apply(document: Any, instruction: Instruction) -> Any:
    op = instruction.op
    if op in (Op.OBJ_MOVE, Op.OBJ_INSERT):
        return _moved(document, instruction)
    place = find(document, instruction.p, op, may_be_absent=op in (Op.SET, Op.DICT_MERGE))
    if op is Op.SET:
        return place.replaced(instruction.v)
    if op is Op.REM:
        return _taken(place)
    if op is Op.BOOL_TOG:
        if not isinstance(place.value, bool):
            raise _wrong(place, "a boolean")
        return place.replaced(not place.value)
    if op is Op.DICT_MERGE:
        return _merged(place, instruction.v)
    if op in _ARRAY:
        if not isinstance(place.value, list):
            raise _wrong(place, "an array")
        return place.replaced(_ARRAY[op](cast(list[Any], place.value), instruction, place))
    if not isinstance(place.value, str):
        raise _wrong(place, "a text")
    return place.replaced(_TEXT[op](place.value, instruction, place))


def _taken(place: Place) -> Any:
    if not place.path:
        raise place.fault(ForbiddenPath, "a document cannot be taken out of itself")
    return place.removed()


def _merged(place: Place, value: Any) -> Any:
    if not isinstance(value, dict):
        raise place.fault(InstructionMalformed, f"v must be an object, not {kind_of(value)}")
    new = cast(dict[str, Any], value)
    polluting = sorted(POLLUTING & new.keys())
    if polluting:
        raise ForbiddenPath(
            op=place.op.name,
            path=(*place.path, polluting[0]),
            reason=f"{polluting[0]!r} may not be written",
        )
    old: dict[str, Any] = cast(dict[str, Any], place.value) if isinstance(place.value, dict) else {}
    return place.replaced({**old, **new})


def _moved(document: Any, instruction: Instruction) -> Any:
    """Take the value out first: the destination is looked for in what is left."""
    op = instruction.op
    target = instruction.d or ()
    source = find(document, instruction.p, op)
    rest = _taken(source)
    if op is Op.OBJ_MOVE:
        return find(rest, target, op, may_be_absent=True).replaced(source.value)
    place = find(rest, target, op)
    if not isinstance(place.value, list):
        raise _wrong(place, "an array")
    items = cast(list[Any], place.value)
    index = len(items) if instruction.i is None else _index(instruction.i, len(items), "i", place)
    return place.replaced([*items[:index], source.value, *items[index:]])


def _wrong(place: Place, wanted: str) -> InstructionError:
    return place.fault(WrongTarget, f"needs {wanted}, but there is {kind_of(place.value)}")


def _index(index: int | None, last: int, name: str, place: Place) -> int:
    if index is None or not 0 <= index <= last:
        allowed = f"0 to {last}" if last >= 0 else "nothing: it is empty"
        raise place.fault(IndexOutOfRange, f"{name} is {index}, allowed: {allowed}")
    return index


def _arr_ins(items: list[Any], instruction: Instruction, place: Place) -> list[Any]:
    index = _index(instruction.i, len(items), "i", place)
    return [*items[:index], instruction.v, *items[index:]]


def _arr_pop(items: list[Any], instruction: Instruction, place: Place) -> list[Any]:
    if not items:
        raise place.fault(IndexOutOfRange, "the array is empty")
    return items[:-1] if instruction.op is Op.ARR_POP else items[1:]


def _arr_rem_idx(items: list[Any], instruction: Instruction, place: Place) -> list[Any]:
    index = _index(instruction.i, len(items) - 1, "i", place)
    return [*items[:index], *items[index + 1 :]]


def _arr_move(items: list[Any], instruction: Instruction, place: Place) -> list[Any]:
    start = _index(instruction.f, len(items) - 1, "f", place)
    end = _index(instruction.t, len(items) - 1, "t", place)
    rest = [*items[:start], *items[start + 1 :]]
    return [*rest[:end], items[start], *rest[end:]]


_ARRAY: Mapping[Op, Callable[[list[Any], Instruction, Place], list[Any]]] = {
    Op.ARR_ADD: lambda items, instruction, _: [*items, instruction.v],
    Op.ARR_UNSHIFT: lambda items, instruction, _: [instruction.v, *items],
    Op.ARR_INS: _arr_ins,
    Op.ARR_POP: _arr_pop,
    Op.ARR_SHIFT: _arr_pop,
    Op.ARR_REM_IDX: _arr_rem_idx,
    Op.ARR_MOVE: _arr_move,
}


def utf16_length(text: str) -> int:
    """Return a text's length as JavaScript counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_slice(text: str, start: int, end: int) -> str:
    """Return a part of a text by UTF-16 offsets. Raises: UnicodeDecodeError where it
    halves a character.
    """
    if text.isascii():
        return text[start:end]
    return text.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end].decode("utf-16-le")


def _spliced(text: str, start: int, end: int, new: str, place: Place) -> str:
    try:
        return utf16_slice(text, 0, start) + new + utf16_slice(text, end, utf16_length(text))
    except UnicodeDecodeError as exc:
        reason = f"{start} to {end} cuts a character in two (offsets count UTF-16 units)"
        raise place.fault(IndexOutOfRange, reason) from exc


def _new_text(instruction: Instruction, place: Place) -> str:
    if not isinstance(instruction.v, str):
        raise place.fault(InstructionMalformed, f"v must be a text, not {kind_of(instruction.v)}")
    return instruction.v


def _str_ins(text: str, instruction: Instruction, place: Place) -> str:
    length = utf16_length(text)
    start = _index(instruction.i, length, "i", place)
    end = start if instruction.t is None else _index(instruction.t, length, "t", place)
    if end < start:
        raise place.fault(IndexOutOfRange, f"t ({end}) is before i ({start})")
    return _spliced(text, start, end, _new_text(instruction, place), place)


def _str_rem(text: str, instruction: Instruction, place: Place) -> str:
    length = utf16_length(text)
    start = _index(instruction.i, length, "i", place)
    count = _index(instruction.l, length - start, "l", place)
    new = "" if instruction.op is Op.STR_REM else _new_text(instruction, place)
    return _spliced(text, start, start + count, new, place)


def _str_rep(text: str, instruction: Instruction, place: Place) -> str:
    if not instruction.s:
        raise place.fault(InstructionMalformed, "s must not be empty")
    count = 1 if instruction.op is Op.STR_REP else -1
    return text.replace(instruction.s, instruction.r or "", count)


_TEXT: Mapping[Op, Callable[[str, Instruction, Place], str]] = {
    Op.STR_APP: lambda text, instruction, place: text + _new_text(instruction, place),
    Op.STR_INS: _str_ins,
    Op.STR_REM: _str_rem,
    Op.STR_REP_AT: _str_rem,
    Op.STR_REP: _str_rep,
    Op.STR_REP_ALL: _str_rep,
}


def inverse_of(document: Any, instruction: Instruction | Mapping[str, Any]) -> list[Instruction]:
    """Return the instructions that, applied in order after this one, restore the document.

    Raises: what `apply_instruction` raises for the same document and instruction.
    """
    read = read_instruction(instruction)
    apply_instruction(document, read)  # raises where it cannot be applied
    if read.op in (Op.OBJ_MOVE, Op.OBJ_INSERT):
        return _moved_back(document, read)
    place = find(document, read.p, read.op, may_be_absent=True)
    return _INVERSES[read.op](place, read)


def _make(op: Op, path: tuple[str, ...], **operands: Any) -> Instruction:
    return Instruction(o=int(op), p=path, **operands)


def _set_back(place: Place, _instruction: Instruction) -> list[Instruction]:
    if place.exists:
        return [_make(Op.SET, place.path, v=place.value)]
    return [_make(Op.REM, place.path)]


def _put_back(place: Place, _instruction: Instruction) -> list[Instruction]:
    if isinstance(place.holders[-1], list):
        return [_make(Op.ARR_INS, place.path[:-1], i=int(place.path[-1]), v=place.value)]
    return [_make(Op.SET, place.path, v=place.value)]


def _unmerged(place: Place, instruction: Instruction) -> list[Instruction]:
    if not isinstance(place.value, dict):
        return _set_back(place, instruction)
    old = cast(dict[str, Any], place.value)
    new = cast(dict[str, Any], instruction.v)
    found = [_make(Op.REM, (*place.path, key)) for key in new if key not in old]
    replaced = {key: old[key] for key in new if key in old}
    return [*found, _make(Op.DICT_MERGE, place.path, v=replaced)] if replaced else found


def _old_text(place: Place, instruction: Instruction) -> list[Instruction]:
    """Put back the stretch that an insertion, a removal or a replacement at an
    offset wrote over.
    """
    text = str(place.value)
    start = instruction.i or 0
    length = instruction.l if instruction.op is not Op.STR_INS else (instruction.t or start) - start
    if instruction.op is Op.STR_INS and instruction.t is None:
        length = 0
    new = "" if instruction.op is Op.STR_REM else str(instruction.v)
    return _restored(
        place.path, start, utf16_length(new), utf16_slice(text, start, start + (length or 0))
    )


def _restored(path: tuple[str, ...], start: int, length: int, old: str) -> list[Instruction]:
    return [_make(Op.STR_REP_AT, path, i=start, l=length, v=old)]


def _unappended(place: Place, instruction: Instruction) -> list[Instruction]:
    start = utf16_length(str(place.value))
    return [_make(Op.STR_REM, place.path, i=start, l=utf16_length(str(instruction.v)))]


def _unreplaced(place: Place, instruction: Instruction) -> list[Instruction]:
    text = str(place.value)
    old = instruction.s or ""
    found = text.find(old)
    if found < 0:
        return []
    start = utf16_length(text[:found])
    return _restored(place.path, start, utf16_length(instruction.r or ""), old)


def _unmoved_item(place: Place, instruction: Instruction) -> list[Instruction]:
    return [_make(Op.ARR_MOVE, place.path, f=instruction.t, t=instruction.f)]


def _item_back(place: Place, instruction: Instruction) -> list[Instruction]:
    index = instruction.i or 0
    return [_make(Op.ARR_INS, place.path, i=index, v=place.value[index])]


_INVERSES: Mapping[Op, Callable[[Place, Instruction], list[Instruction]]] = {
    Op.SET: _set_back,
    Op.REM: _put_back,
    Op.ARR_ADD: lambda place, _: [_make(Op.ARR_POP, place.path)],
    Op.ARR_INS: lambda place, i: [_make(Op.ARR_REM_IDX, place.path, i=i.i)],
    Op.STR_REP: _unreplaced,
    Op.STR_REP_ALL: _set_back,
    Op.ARR_POP: lambda place, _: [_make(Op.ARR_ADD, place.path, v=place.value[-1])],
    Op.ARR_SHIFT: lambda place, _: [_make(Op.ARR_UNSHIFT, place.path, v=place.value[0])],
    Op.ARR_UNSHIFT: lambda place, _: [_make(Op.ARR_SHIFT, place.path)],
    Op.STR_APP: _unappended,
    Op.STR_REM: _old_text,
    Op.STR_REP_AT: _old_text,
    Op.BOOL_TOG: lambda place, _: [_make(Op.BOOL_TOG, place.path)],
    Op.ARR_REM_IDX: _item_back,
    Op.DICT_MERGE: _unmerged,
    Op.STR_INS: _old_text,
    Op.ARR_MOVE: _unmoved_item,
}


def _moved_back(document: Any, instruction: Instruction) -> list[Instruction]:
    """Move the value back; where that would not restore what was written over, set
    what is around both.
    """
    source = find(document, instruction.p, instruction.op)
    target = find(source.removed(), instruction.d or (), instruction.op, may_be_absent=True)
    if instruction.op is Op.OBJ_INSERT:
        index = len(target.value) if instruction.i is None else instruction.i
        now = (*target.path, str(index))
    elif target.exists:
        shared = _shared(source.path[:-1], target.path)
        return [_make(Op.SET, shared, v=find(document, shared, Op.SET).value)]
    else:
        now = target.path
    home = source.path[:-1]
    if isinstance(source.holders[-1], list):
        return [_make(Op.OBJ_INSERT, now, d=home, i=int(source.path[-1]))]
    return [_make(Op.OBJ_MOVE, now, d=source.path)]


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]
