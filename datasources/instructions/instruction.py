"""What an instruction is: one of 19 operations, where it works, and its operands, as sent
on the wire.

A `GraphInstruction` is an instruction with the node or edge it is meant for and what the editor
does besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from datasources.errors import InstructionMalformed


class Op(IntEnum):
    """The operations by their number on the wire."""

    SET = 1
    REM = 2
    ARR_ADD = 3
    ARR_INS = 4
    STR_REP = 5
    STR_REP_ALL = 6
    ARR_POP = 7
    ARR_SHIFT = 8
    ARR_UNSHIFT = 9
    STR_APP = 10
    STR_REM = 11
    STR_REP_AT = 12
    BOOL_TOG = 13
    ARR_REM_IDX = 14
    DICT_MERGE = 15
    STR_INS = 16
    ARR_MOVE = 17
    OBJ_MOVE = 18
    OBJ_INSERT = 19


Path = Annotated[tuple[str, ...], Field(strict=False)]
"""Keys from the document inwards; a part may be an array's index, as `"0"`."""

_OPERANDS: Mapping[Op, str] = {
    **dict.fromkeys((Op.SET, Op.ARR_ADD, Op.ARR_UNSHIFT, Op.STR_APP, Op.DICT_MERGE), "v"),
    **dict.fromkeys((Op.REM, Op.ARR_POP, Op.ARR_SHIFT, Op.BOOL_TOG), ""),
    **dict.fromkeys((Op.ARR_INS, Op.STR_INS), "vi"),
    **dict.fromkeys((Op.STR_REP, Op.STR_REP_ALL), "sr"),
    **dict.fromkeys((Op.OBJ_MOVE, Op.OBJ_INSERT), "d"),
    Op.STR_REM: "il",
    Op.STR_REP_AT: "ilv",
    Op.ARR_REM_IDX: "i",
    Op.ARR_MOVE: "ft",
}
"""What each operation needs."""


class Instruction(BaseModel):
    """One change of one document. Units: text offsets and lengths count UTF-16 code units."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    o: Annotated[int, Field(ge=1, le=19)]
    p: Path = ()
    v: Any = None
    i: int | None = None
    l: int | None = None  # noqa: E741 - the name on the wire
    s: str | None = None
    r: str | None = None
    f: int | None = None
    t: int | None = None
    d: Path | None = None

    @model_validator(mode="after")
    def _has_operands(self) -> Instruction:
        for name in _OPERANDS[self.op]:
            absent = (
                name not in self.model_fields_set if name == "v" else getattr(self, name) is None
            )
            if absent:
                raise ValueError(f"{self.op.name} needs {name!r}")
        return self

    @property
    def op(self) -> Op:
        return Op(self.o)

    def to_document(self) -> dict[str, Any]:
        """Return the instruction as sent: just the operands that were given."""
        return self.model_dump(mode="json", exclude_unset=True)


class GraphInstruction(BaseModel):
    """An instruction for one node or edge of a sheet, with what editors do besides applying it."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True
    )

    i: Instruction
    sheet_id: str
    node_id: str | None = None
    edge_id: str | None = None
    dont_put_back_action: bool | None = None
    apply_uniq_identifier: str | bool | None = None
    targeted_identifier: str | None = None
    animate_pos: bool | None = None
    animate_size: bool | None = None
    dont_trigger_update_node: bool | None = None
    trigger_html_render: bool | None = None
    dont_apply_to_my_self: bool | None = None

    @model_validator(mode="after")
    def _has_one_target(self) -> GraphInstruction:
        if (self.node_id is None) == (self.edge_id is None):
            raise ValueError("give either nodeId or edgeId")
        return self

    def to_document(self) -> dict[str, Any]:
        """Return it as sent."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


def read_instruction(raw: Instruction | Mapping[str, Any]) -> Instruction:
    """Return a validated instruction. Raises: InstructionMalformed."""
    if isinstance(raw, Instruction):
        return raw
    try:
        return Instruction.model_validate(raw)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        reason = f"{where}: {first['msg']}" if where else first["msg"]
        raise InstructionMalformed(op=_name_of(raw), path=_path_of(raw), reason=reason) from exc


def _name_of(raw: Any) -> str:
    number: Any = cast(Mapping[str, Any], raw).get("o") if isinstance(raw, Mapping) else None
    known = type(number) is int and number in set(Op)
    return Op(number).name if known else f"operation {number!r}"[:60]


def _path_of(raw: Any) -> tuple[str, ...]:
    path: Any = cast(Mapping[str, Any], raw).get("p") if isinstance(raw, Mapping) else None
    return (
        tuple(str(part)[:60] for part in cast(list[Any], path)[:20])
        if isinstance(path, list)
        else ()
    )
