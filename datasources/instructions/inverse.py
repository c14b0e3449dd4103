"""Works out what undoes an instruction, from the document as it was before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from datasources.instructions.instruction import Instruction, Op, read_instruction
from datasources.instructions.operations import apply_instruction, utf16_length, utf16_slice
from datasources.instructions.paths import Place, find


def inverse_of(document: Any, instruction: Instruction | Mapping[str, Any]) -> list[Instruction]:
    """Return the instructions that, applied in order after this one, restore the document.

    Raises: what `apply_instruction` raises for the same document and instruction.
    """
    read = read_instruction(instruction)
    after = apply_instruction(document, read)
    if read.op in (Op.OBJ_MOVE, Op.OBJ_INSERT):
        return _moved_back(document, read)
    place = find(document, read.p, read.op, may_be_absent=True)
    return _INVERSES[read.op](place, read, after)


def _make(op: Op, path: tuple[str, ...], **operands: Any) -> Instruction:
    return Instruction(o=int(op), p=path, **operands)


def _set_back(place: Place, _instruction: Instruction, _after: Any) -> list[Instruction]:
    if place.exists:
        return [_make(Op.SET, place.path, v=place.value)]
    return [_make(Op.REM, place.path)]


def _put_back(place: Place, _instruction: Instruction, _after: Any) -> list[Instruction]:
    if isinstance(place.holders[-1], list):
        return [_make(Op.ARR_INS, place.path[:-1], i=int(place.path[-1]), v=place.value)]
    return [_make(Op.SET, place.path, v=place.value)]


def _unmerged(place: Place, instruction: Instruction, after: Any) -> list[Instruction]:
    if not isinstance(place.value, dict):
        return _set_back(place, instruction, after)
    old, new = cast(dict[str, Any], place.value), cast(dict[str, Any], instruction.v)
    found = [_make(Op.REM, (*place.path, key)) for key in new if key not in old]
    replaced = {key: old[key] for key in new if key in old}
    return [*found, _make(Op.DICT_MERGE, place.path, v=replaced)] if replaced else found


def _old_text(place: Place, instruction: Instruction, _after: Any) -> list[Instruction]:
    """Put back the stretch that an insertion, a removal or a replacement at an offset wrote over."""
    text, start = str(place.value), instruction.i or 0
    length = instruction.l if instruction.op is not Op.STR_INS else (instruction.t or start) - start
    if instruction.op is Op.STR_INS and instruction.t is None:
        length = 0
    new = "" if instruction.op is Op.STR_REM else str(instruction.v)
    return _restored(place.path, start, utf16_length(new), utf16_slice(text, start, start + (length or 0)))


def _restored(path: tuple[str, ...], start: int, length: int, old: str) -> list[Instruction]:
    return [_make(Op.STR_REP_AT, path, i=start, l=length, v=old)]


def _unappended(place: Place, instruction: Instruction, _after: Any) -> list[Instruction]:
    start = utf16_length(str(place.value))
    return [_make(Op.STR_REM, place.path, i=start, l=utf16_length(str(instruction.v)))]


def _unreplaced(place: Place, instruction: Instruction, _after: Any) -> list[Instruction]:
    text, old = str(place.value), instruction.s or ""
    found = text.find(old)
    if found < 0:
        return []
    start = utf16_length(text[:found])
    return _restored(place.path, start, utf16_length(instruction.r or ""), old)


def _unmoved_item(place: Place, instruction: Instruction, _after: Any) -> list[Instruction]:
    return [_make(Op.ARR_MOVE, place.path, f=instruction.t, t=instruction.f)]


def _item_back(place: Place, instruction: Instruction, _after: Any) -> list[Instruction]:
    index = instruction.i or 0
    return [_make(Op.ARR_INS, place.path, i=index, v=place.value[index])]


_INVERSES: Mapping[Op, Callable[[Place, Instruction, Any], list[Instruction]]] = {
    Op.SET: _set_back,
    Op.REM: _put_back,
    Op.ARR_ADD: lambda place, _i, _a: [_make(Op.ARR_POP, place.path)],
    Op.ARR_INS: lambda place, i, _a: [_make(Op.ARR_REM_IDX, place.path, i=i.i)],
    Op.STR_REP: _unreplaced,
    Op.STR_REP_ALL: _set_back,
    Op.ARR_POP: lambda place, _i, _a: [_make(Op.ARR_ADD, place.path, v=place.value[-1])],
    Op.ARR_SHIFT: lambda place, _i, _a: [_make(Op.ARR_UNSHIFT, place.path, v=place.value[0])],
    Op.ARR_UNSHIFT: lambda place, _i, _a: [_make(Op.ARR_SHIFT, place.path)],
    Op.STR_APP: _unappended,
    Op.STR_REM: _old_text,
    Op.STR_REP_AT: _old_text,
    Op.BOOL_TOG: lambda place, _i, _a: [_make(Op.BOOL_TOG, place.path)],
    Op.ARR_REM_IDX: _item_back,
    Op.DICT_MERGE: _unmerged,
    Op.STR_INS: _old_text,
    Op.ARR_MOVE: _unmoved_item,
}


def _moved_back(document: Any, instruction: Instruction) -> list[Instruction]:
    """Move the value back; where that would not restore what was written over, set what is around both."""
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
