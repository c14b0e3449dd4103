"""Reading what tools answer: whole, cut off, and made to mislead."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphrag.offline.handles import Handle, fitting_pair, handles_of_type
from graphrag.offline.readings import Reading, read_answer
from graphrag.offline.wording import fold, read_wording
from tools.toon import encode, encode_table

CELLS = st.one_of(st.none(), st.text(max_size=40), st.integers(-1000, 1000), st.booleans())
ROWS = st.lists(st.fixed_dictionaries({"_key": st.text(max_size=20), "name": CELLS}), min_size=1, max_size=6)


@given(rows=ROWS, title=st.text(max_size=60))
def test_written_tables_and_fields_are_read_back(rows: list[dict[str, object]], title: str) -> None:
    text = "\n".join([encode({"title": title}), encode_table("nodes", rows, ["_key", "name"]), "A sentence."])
    reading = read_answer(text)
    clean = [{k: _clean(v) for k, v in row.items()} for row in rows]
    assert [dict(row) for row in reading.rows("nodes")] == clean
    assert reading.fields["title"] == _clean(title)
    assert reading.notes == ("A sentence.",)
    assert reading.is_whole("nodes")


@given(rows=ROWS, share=st.floats(0, 1))
def test_cut_answer_gives_the_rows_that_came_whole(rows: list[dict[str, object]], share: float) -> None:
    text = encode_table("nodes", rows, ["_key", "name"])
    reading = read_answer(text[: int(len(text) * share)])
    got = [dict(row) for row in reading.rows("nodes")]
    clean = [{k: _clean(v) for k, v in row.items()} for row in rows]
    assert len(got) <= len(clean)
    assert got[:-1] == clean[: max(len(got) - 1, 0)]
    if reading.tables and len(got) < len(rows):
        assert not reading.is_whole("nodes")


@given(text=st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert read_answer(text).text == text


def _clean(value: object) -> object:
    return (
        value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(value, str)
        else value
    )


@given(text=st.text(max_size=200))
def test_every_part_of_a_wording_is_given_back_as_it_was_written(text: str) -> None:
    wording = read_wording(text)
    assert len(wording.folded) == len(wording.places)
    got = wording.text(0, len(wording.folded))
    assert got in wording.original or got in wording.quotes


def test_quotes_and_links_are_taken_whole() -> None:
    wording = read_wording("relie «Étape A» à {{node:b-2}} puis l'arête `c`")
    assert wording.quotes == ("Étape A", "b-2", "c")
    assert "l'arete" in wording.folded


def test_folding_sees_through_accents_ligatures_and_case() -> None:
    assert fold("  Nœud  DÉPLACÉ ’ ") == "noeud deplace '"


def test_handles_of_a_type_are_read_from_their_short_form() -> None:
    reading = Reading(fields={"handles": "in L:0<number>,T:x; out R:0 'a, b',R:1<number> late,D:2"})
    handles = handles_of_type(reading)
    assert [(h.id, h.accept) for h in handles.inputs] == [("0", "number"), ("x", "any")]
    assert [(h.id, h.accept, h.label) for h in handles.outputs] == [
        ("0", "any", "a, b"),
        ("1", "number", "late"),
        ("2", "any", ""),
    ]


def test_first_pair_of_handles_that_accept_the_same_is_chosen() -> None:
    outputs = [Handle(id="0", accept="text"), Handle(id="1", accept="number", label="count")]
    inputs = [Handle(id="i", accept="number")]
    assert fitting_pair(outputs, inputs) == (outputs[1], inputs[0])
    assert fitting_pair(outputs, inputs, "count") == (outputs[1], inputs[0])
    assert fitting_pair(outputs, inputs, "0") is None
