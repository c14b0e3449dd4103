"""The document operations: what each does, what undoes it, and that nothing
hostile gets through.
"""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from datasources.errors import (
    ForbiddenPath,
    IndexOutOfRange,
    InstructionError,
    InstructionMalformed,
    PathNotFound,
    WrongTarget,
)
from datasources.instructions import IDENTITY_FIELDS, Instruction, Op, apply_instruction, inverse_of

DOCUMENT: dict[str, Any] = {
    "name": "héllo 🦜 world",
    "on": True,
    "n": 3,
    "nothing": None,
    "list": ["a", {"x": 1}, ["deep"]],
    "empty": [],
    "data": {"a": {"b": "text"}, "": "no name"},
}


OPERATIONS = [
    ({"o": 1, "p": ["n"], "v": 4}, ["n"], 4),
    ({"o": 1, "p": ["new"], "v": None}, ["new"], None),
    ({"o": 1, "p": ["list", "1", "x"], "v": 2}, ["list", 1], {"x": 2}),
    ({"o": 1, "p": ["empty", "0"], "v": 2}, ["empty"], [2]),
    ({"o": 1, "p": [], "v": "whole"}, [], "whole"),
    ({"o": 1, "v": [1]}, [], [1]),
    ({"o": 2, "p": ["list", "0"]}, ["list"], [{"x": 1}, ["deep"]]),
    ({"o": 2, "p": ["data", "a"]}, ["data"], {"": "no name"}),
    ({"o": 2, "p": ["data", ""]}, ["data"], {"a": {"b": "text"}}),
    ({"o": 3, "p": ["empty"], "v": 1}, ["empty"], [1]),
    ({"o": 4, "p": ["list"], "i": 3, "v": 1}, ["list", 3], 1),
    ({"o": 4, "p": ["list"], "i": 0, "v": None}, ["list", 0], None),
    ({"o": 7, "p": ["list"]}, ["list"], ["a", {"x": 1}]),
    ({"o": 8, "p": ["list"]}, ["list"], [{"x": 1}, ["deep"]]),
    ({"o": 9, "p": ["list"], "v": 0}, ["list", 0], 0),
    ({"o": 14, "p": ["list"], "i": 1}, ["list"], ["a", ["deep"]]),
    ({"o": 17, "p": ["list"], "f": 0, "t": 2}, ["list"], [{"x": 1}, ["deep"], "a"]),
    ({"o": 17, "p": ["list"], "f": 2, "t": 0}, ["list"], [["deep"], "a", {"x": 1}]),
    ({"o": 10, "p": ["name"], "v": "!"}, ["name"], "héllo 🦜 world!"),
    # 🦜 is two UTF-16 units: the second word starts at 9
    ({"o": 16, "p": ["name"], "i": 9, "v": "big "}, ["name"], "héllo 🦜 big world"),
    ({"o": 16, "p": ["name"], "i": 6, "t": 8, "v": "🐦"}, ["name"], "héllo 🐦 world"),
    ({"o": 11, "p": ["name"], "i": 6, "l": 3}, ["name"], "héllo world"),
    ({"o": 12, "p": ["name"], "i": 9, "l": 5, "v": "you"}, ["name"], "héllo 🦜 you"),
    ({"o": 5, "p": ["name"], "s": "l", "r": "$&"}, ["name"], "hé$&lo 🦜 world"),
    ({"o": 6, "p": ["name"], "s": "l", "r": ""}, ["name"], "héo 🦜 word"),
    ({"o": 5, "p": ["name"], "s": "absent", "r": "x"}, ["name"], "héllo 🦜 world"),
    ({"o": 13, "p": ["on"]}, ["on"], False),
    (
        {"o": 15, "p": ["data"], "v": {"c": 1}},
        ["data"],
        {"a": {"b": "text"}, "": "no name", "c": 1},
    ),
    ({"o": 15, "p": ["n"], "v": {"c": 1}}, ["n"], {"c": 1}),
    ({"o": 15, "p": ["made"], "v": {"c": 1}}, ["made"], {"c": 1}),
    ({"o": 18, "p": ["n"], "d": ["data", "a", "n"]}, ["data", "a"], {"b": "text", "n": 3}),
    ({"o": 18, "p": ["list", "1"], "d": ["list", "1"]}, ["list"], ["a", {"x": 1}]),
    ({"o": 18, "p": ["data", "a"], "d": []}, [], {"b": "text"}),
    ({"o": 19, "p": ["n"], "d": ["list"], "i": 1}, ["list"], ["a", 3, {"x": 1}, ["deep"]]),
    ({"o": 19, "p": ["list", "0"], "d": ["list"], "i": 2}, ["list"], [{"x": 1}, ["deep"], "a"]),
    (
        {"o": 19, "p": ["list", "0"], "d": ["list", "1"], "i": 0},
        ["list"],
        [{"x": 1}, ["a", "deep"]],
    ),
    ({"o": 19, "p": ["n"], "d": ["empty"]}, ["empty"], [3]),
]


@pytest.mark.parametrize(("instruction", "path", "expected"), [*OPERATIONS])
def test_each_operation_does_what_it_says(
    instruction: dict[str, Any], path: list[Any], expected: Any
) -> None:
    value = apply_instruction(DOCUMENT, instruction)
    for part in path:
        value = value[part]
    assert value == expected


@pytest.mark.parametrize(
    ("instruction", "error", "says"),
    [
        ({"o": 0}, InstructionMalformed, "greater than or equal to 1"),
        ({"o": 20}, InstructionMalformed, "less than or equal to 19"),
        ({"o": True, "v": 1}, InstructionMalformed, "o: "),
        ({"o": 1, "p": ["n"]}, InstructionMalformed, "needs 'v'"),
        ({"o": 1, "p": [0], "v": 1}, InstructionMalformed, "p.0"),
        ({"o": 1, "p": "n", "v": 1}, InstructionMalformed, "p: "),
        ({"o": 1, "p": ["n"], "v": 1, "x": 2}, InstructionMalformed, "x: "),
        ({"o": 17, "p": ["list"], "f": 1}, InstructionMalformed, "needs 't'"),
        ({"o": 18, "p": ["n"]}, InstructionMalformed, "needs 'd'"),
        ({"o": 5, "p": ["name"], "s": "", "r": "x"}, InstructionMalformed, "must not be empty"),
        ({"o": 10, "p": ["name"], "v": 1}, InstructionMalformed, "must be a text"),
        ({"o": 15, "p": ["data"], "v": [1]}, InstructionMalformed, "must be an object"),
        ({"o": 10, "p": ["name"], "v": "\ud83e"}, InstructionMalformed, "surrogate"),
        ({"o": 1, "p": ["n"], "v": float("nan")}, InstructionMalformed, "finite"),
        ({"o": 1, "p": ["n"], "v": {1: 2}}, InstructionMalformed, "must be texts"),
        ({"o": 1, "p": ["n"], "v": {"a": object()}}, InstructionMalformed, "not JSON"),
        ({"o": 1, "p": ["no", "n"], "v": 1}, PathNotFound, "no 'no'"),
        ({"o": 2, "p": ["no"]}, PathNotFound, "no 'no'"),
        ({"o": 2, "p": ["list", "-1"]}, PathNotFound, "only indices"),
        ({"o": 2, "p": ["list", "01"]}, PathNotFound, "only indices"),
        ({"o": 2, "p": ["list", "length"]}, PathNotFound, "only indices"),
        ({"o": 2, "p": ["list", "١"]}, PathNotFound, "only indices"),
        ({"o": 2, "p": ["list", "3"]}, PathNotFound, "no '3'"),
        ({"o": 1, "p": ["list", "4"], "v": 1}, IndexOutOfRange, "3 items"),
        ({"o": 1, "p": ["name", "0"], "v": 1}, WrongTarget, "a text"),
        ({"o": 1, "p": ["nothing", "a"], "v": 1}, WrongTarget, "null"),
        ({"o": 3, "p": ["name"], "v": 1}, WrongTarget, "needs an array"),
        ({"o": 10, "p": ["list"], "v": "x"}, WrongTarget, "needs a text"),
        ({"o": 13, "p": ["n"]}, WrongTarget, "needs a boolean"),
        ({"o": 19, "p": ["n"], "d": ["data"], "i": 0}, WrongTarget, "needs an array"),
        ({"o": 4, "p": ["list"], "i": 4, "v": 1}, IndexOutOfRange, "0 to 3"),
        ({"o": 4, "p": ["list"], "i": -1, "v": 1}, IndexOutOfRange, "0 to 3"),
        ({"o": 7, "p": ["empty"]}, IndexOutOfRange, "empty"),
        ({"o": 14, "p": ["empty"], "i": 0}, IndexOutOfRange, "empty"),
        ({"o": 17, "p": ["list"], "f": 0, "t": 3}, IndexOutOfRange, "0 to 2"),
        ({"o": 11, "p": ["name"], "i": 10, "l": 90}, IndexOutOfRange, "l is 90"),
        ({"o": 11, "p": ["name"], "i": 7, "l": 1}, IndexOutOfRange, "cuts a character"),
        ({"o": 16, "p": ["name"], "i": 3, "t": 2, "v": ""}, IndexOutOfRange, "before"),
        ({"o": 2, "p": []}, ForbiddenPath, "out of itself"),
        ({"o": 18, "p": [], "d": ["n"]}, ForbiddenPath, "out of itself"),
        ({"o": 18, "p": ["data"], "d": ["data", "a", "b"]}, PathNotFound, "no 'data'"),
        ({"o": 1, "p": ["__proto__", "x"], "v": 1}, ForbiddenPath, "__proto__"),
        ({"o": 1, "p": ["data", "constructor"], "v": 1}, ForbiddenPath, "constructor"),
        ({"o": 15, "p": ["data"], "v": {"prototype": 1}}, ForbiddenPath, "prototype"),
        ({"o": 1, "p": ["data"], "v": [{"__proto__": {}}]}, ForbiddenPath, "__proto__"),
        ({"o": 18, "p": ["n"], "d": ["data", "__proto__"]}, ForbiddenPath, "__proto__"),
    ],
)
def test_a_refusal_names_operation_path_and_reason(
    instruction: dict[str, Any], error: type[InstructionError], says: str
) -> None:
    for act in (apply_instruction, inverse_of):
        with pytest.raises(InstructionError) as caught:
            act(DOCUMENT, instruction)
        assert type(caught.value) is error
        assert says in caught.value.reason
        assert str(caught.value).startswith(f"{caught.value.op} at ")


def deeply(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_value_nested_without_end_is_refused() -> None:
    with pytest.raises(InstructionMalformed, match="nests deeper"):
        apply_instruction(DOCUMENT, {"o": 1, "p": ["n"], "v": deeply(5_000)})


@pytest.mark.parametrize("field", [*sorted(IDENTITY_FIELDS)])
@pytest.mark.parametrize(
    "instruction",
    [
        lambda f: {"o": 1, "p": [f], "v": "other"},
        lambda f: {"o": 2, "p": [f]},
        lambda f: {"o": 10, "p": [f], "v": "x"},
        lambda f: {"o": 15, "p": [], "v": {f: "other"}},
        lambda f: {"o": 1, "p": [], "v": {"type": "t"}},
        lambda f: {"o": 18, "p": ["type"], "d": [f]},
        lambda f: {"o": 18, "p": [f], "d": ["data"]},
        lambda f: {"o": 18, "p": ["data"], "d": []},
        lambda f: {"o": 1, "p": [], "v": "gone"},
    ],
)
def test_which_node_a_document_is_cannot_be_written(field: str, instruction: Any) -> None:
    node = {"_key": "k", "graphKey": "g", "sheet": "0", "type": "t", "data": {}}
    with pytest.raises(ForbiddenPath):
        apply_instruction(node, instruction(field), protected=IDENTITY_FIELDS)
    moved = apply_instruction(node, {"o": 15, "p": [], "v": {"posX": 1}}, protected=IDENTITY_FIELDS)
    assert moved == {**node, "posX": 1}


# Few keys and letters, so that paths often lead somewhere and texts often contain what is searched.
keys = st.sampled_from(["a", "b", "c", "", "0", "1"])
texts = st.text(alphabet="ab🦜é", max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
documents = st.dictionaries(keys, json_values, max_size=4) | json_values


def paths_of(value: Any, kind: type = object, here: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of the values of a kind."""
    inside: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = [(str(i), item) for i, item in enumerate(value)]
    found = [here] if isinstance(value, kind) else []
    return found + [path for part, item in inside for path in paths_of(item, kind, (*here, part))]


def at(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def operand_kind(op: Op) -> type:
    """Return what an operation works on: few random instructions would succeed anywhere else."""
    if op.name.startswith("ARR"):
        return list
    return str if op.name.startswith("STR") else bool if op is Op.BOOL_TOG else object


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """Draw a document and an instruction that mostly fits it."""
    document = draw(
        st.fixed_dictionaries({"text": texts, "list": st.lists(json_values), "flag": st.booleans()})
    )
    document |= draw(st.dictionaries(keys, json_values, max_size=3))
    op = draw(st.sampled_from(list(Op)))
    path = draw(st.sampled_from(paths_of(document, operand_kind(op))))
    value = at(document, path)
    if op in (Op.SET, Op.DICT_MERGE) and draw(st.booleans()):
        path = (*path, draw(keys))
    target = draw(st.sampled_from(paths_of(document, list if op is Op.OBJ_INSERT else object)))
    if op is Op.OBJ_MOVE and draw(st.booleans()):
        target = (*target, draw(keys))
    place = st.integers(0, max(0, len(value) - 1) if isinstance(value, str | list) else 2)
    new = {Op.DICT_MERGE: st.dictionaries(keys, json_values, max_size=3)}.get(op, json_values)
    instruction = {
        "o": int(op),
        "p": list(path),
        "v": draw(texts if op.name.startswith("STR") else new),
        "i": draw(place),
        "l": draw(st.integers(0, 2)),
        "s": draw(texts),
        "r": draw(texts),
        "f": draw(place),
        "t": draw(place if op is Op.ARR_MOVE else place | st.none()),
        "d": list(target),
    }
    return document, instruction


@given(cases())
def test_inverse_restores_the_document_and_the_input_is_never_changed(
    case: tuple[Any, Any],
) -> None:
    document, raw = case
    kept = copy.deepcopy((document, raw))
    try:
        after = apply_instruction(document, raw)
    except InstructionError as exc:
        event(f"refused: {exc.op}")
        return
    event(f"applied: {Op(raw['o']).name}")
    inverse = inverse_of(document, raw)
    for instruction in inverse:
        after = apply_instruction(after, instruction)
    assert typed(after) == typed(kept[0])
    assert (document, raw) == kept


def typed(value: Any) -> Any:
    """Return a form in which True is not 1."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return (type(value).__name__, value)


hostile = st.dictionaries(
    st.sampled_from(["o", "p", "v", "i", "l", "s", "r", "f", "t", "d", "x"]),
    st.one_of(
        json_values,
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.lists(
            st.text(max_size=3) | st.sampled_from(["__proto__", "99999999999999999999"]), max_size=4
        ),
        st.just("\ud800"),
        st.binary(max_size=2),
    ),
)


@given(documents, st.integers(-1, 21), hostile)
def test_hostile_instructions_raise_only_their_errors(
    document: Any, op: int, raw: dict[str, Any]
) -> None:
    kept = copy.deepcopy(document)
    for act in (apply_instruction, inverse_of):
        with suppress(InstructionError):
            act(document, {"o": op, **raw})
    assert document == kept


def test_an_instruction_is_sent_as_it_was_read() -> None:
    sent = {"o": 1, "p": ["data", "a"], "v": None}
    assert Instruction.model_validate(sent).to_document() == sent
    assert Instruction(o=Op.REM, p=("a",)).to_document() == {"o": 2, "p": ["a"]}
