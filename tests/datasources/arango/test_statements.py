"""Every AQL text is one the server's grammar takes, with just its bind variables; a
question takes few.
"""

import ast
import re
from pathlib import Path

import pytest

from datasources.arango.database import all_statements
from datasources.arango.statements import Statement
from tests.benchmarks.arango_round_trips import measure
from tests.support.arango import ArangoServer
from tests.support.arango_counting import RoundTrips
from tests.support.arangodouble.checker import check

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "datasources/arango"
RUNNERS = {"execute", "explain", "validate"}
STATEMENTS = all_statements()
COMPOSERS = ("compose", "of_graph", "on_graph")
NEW_IN_312 = (
    "APPROX_NEAR_COSINE", "APPROX_NEAR_L2", "APPROX_NEAR_INNER_PRODUCT", "ENTRIES", "PARSE_COLLECTION",
    "PARSE_KEY", "REPEAT", "TO_CHAR", "RANDOM_TOKEN", "KEEP_RECURSIVE", "ARRAY_AGG", "PUSH",
)  # fmt: skip
DIALECTS = ("3.12", "4.0")


def binds_of(statement: Statement) -> dict[str, object]:
    names = {f"@{name}": "a_collection" for name in statement.collections}
    return {**names, **dict.fromkeys(statement.values, 1)}


@pytest.mark.parametrize("dialect", [*DIALECTS])
@pytest.mark.parametrize("statement", [*STATEMENTS.values()])
def test_a_statement_is_valid_with_just_its_binds(statement: Statement, dialect: str) -> None:
    check(statement.text, binds_of(statement), dialect=dialect)


@pytest.mark.parametrize("statement", [*STATEMENTS.values()])
def test_a_statement_uses_what_3_11_has_but_for_the_vector_index(statement: Statement) -> None:
    """Source: ArangoDB 3.12 release notes, "What's new", AQL."""
    new = {name for name in NEW_IN_312 if re.search(rf"\b{name}\(", statement.text)}
    assert new == ({"APPROX_NEAR_COSINE"} if statement is STATEMENTS["SEARCH_NEAR"] else set())
    assert not re.search(r"(LET|FOR) *[\[{]", statement.text), "destructuring is of 3.12.2"
    assert not re.search(r"UPSERT\s+FILTER", statement.text), "it is of 3.12"


@pytest.mark.parametrize("statement", [*STATEMENTS.values()])
def test_a_statement_that_names_a_graph_names_its_workspace(statement: Statement) -> None:
    if "graph" in statement.values:
        assert "workspace" in statement.values
        assert "g._key == @graph AND g.workspace == @workspace" in statement.text


def test_a_value_too_many_or_too_few_is_refused() -> None:
    statement = STATEMENTS["GRAPHS"]
    assert statement.binds({"workspace": "w"}) == {"@graphs": "nodius_graphs", "workspace": "w"}
    for values in ({}, {"workspace": "w", "more": 1}):
        with pytest.raises(TypeError, match="FOR g IN @@graphs"):
            statement.binds(values)


def modules() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(PACKAGE.rglob("*.py"))]


def is_literal(text: ast.expr) -> bool:
    """Return whether a text is a literal, or composed of literals and constants of the module."""
    if isinstance(text, ast.Call):
        parts = [*text.args, *(keyword.value for keyword in text.keywords)]
        return ast.unparse(text.func) in COMPOSERS and all(is_literal(part) for part in parts)
    if isinstance(text, ast.Name):
        return text.id.isupper()
    return isinstance(text, ast.Constant) and isinstance(text.value, str)


def test_statement_texts_are_composed_of_literals() -> None:
    found = 0
    for path, tree in modules():
        if path.name == "statements.py":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Statement", *COMPOSERS):
                found += 1
                assert is_literal(node.args[0]), f"{path.name}:{node.lineno} puts its text together"
    assert found >= len(STATEMENTS)


def test_what_is_run_is_the_text_of_a_statement() -> None:
    runs = 0
    for path, tree in modules():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            target = node.func.value
            if (
                node.func.attr in RUNNERS
                and isinstance(target, ast.Attribute)
                and target.attr == "aql"
            ):
                runs += 1
                text = node.args[0]
                where = f"{path.name}:{node.lineno} runs what is not a statement's text"
                assert isinstance(text, ast.Attribute), where
                assert text.attr == "text", where
    assert runs >= 3


@pytest.fixture
async def counted(arango: ArangoServer) -> dict[str, RoundTrips]:
    return await measure(arango)


async def test_operations_take_few_round_trips(counted: dict[str, RoundTrips]) -> None:
    retrievals = {what: j for what, j in counted.items() if what.startswith("retrieval")}
    assert len(retrievals) == 4
    for what, round_trips in retrievals.items():
        assert round_trips.requests <= 3, what
    assert counted["retrieval from the cache"].requests == 1
    assert counted["open a graph"].requests == 4
    assert counted["save 100 changed nodes"].requests <= 8
    assert counted["store 100 embeddings"].requests == 1
