"""The checker refuses what a server would refuse before it runs a query."""

from __future__ import annotations

import pytest

from tests.support.arangodouble.checker import check
from tests.support.arangodouble.errors import AqlError

DIALECTS = ("3.12", "4.0")
REFUSED = (
    (1501, "FOR d IN c RETURN d )", ()),
    (1511, "LET x = 1 LET x = 2 RETURN x", ()),
    (1551, "FOR d IN @@c RETURN d", ()),
    (1552, "FOR d IN c RETURN d", ("more",)),
    (1540, "RETURN UNHEARD_OF(1)", ()),
    (1541, "RETURN LENGTH(1, 2)", ()),
    (1539, "FOR d IN c OPTIONS { fast: true } RETURN d", ()),
    (1575, "FOR d IN c OPTIONS { indexHint: @i } RETURN d", ("i",)),
    (1579, "FOR d IN c INSERT d INTO c2 FOR e IN c2 RETURN e", ()),
)


@pytest.mark.parametrize("dialect", [*DIALECTS])
@pytest.mark.parametrize("row", [*REFUSED])
def test_a_wrong_text_is_refused(row: tuple[int, str, tuple[str, ...]], dialect: str) -> None:
    number, text, binds = row
    with pytest.raises(AqlError) as caught:
        check(text, binds, dialect=dialect)
    assert caught.value.num == number


@pytest.mark.parametrize(
    "text",
    [
        "LET match = 1 RETURN match",
        'FOR v IN 1..2 OUTBOUND "c/1" e OPTIONS { bfs: true } RETURN v',
        "INSERT {} INTO c OPTIONS { overwrite: true }",
    ],
)
def test_what_4_0_removed_is_refused_there_alone(text: str) -> None:
    check(text, ())
    with pytest.raises(AqlError):
        check(text, (), dialect="4.0")


def test_a_function_that_the_double_lacks_is_valid() -> None:
    check("RETURN SOUNDEX(1)", ())
