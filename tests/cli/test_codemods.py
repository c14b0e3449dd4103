"""The commands `replace` and `codemods`: a replacement over many graphs from its proposal
to its undo.
"""

import pytest

from tests.cli.conftest import invoke, printed

OLD, NEW = "https://api.example.com", "https://api.example.org"


@pytest.mark.usefixtures("db")
def test_a_replacement_is_listed_approved_and_undone() -> None:
    made = printed(invoke("replace", OLD, NEW, "--json"))["codemodId"]
    for step, status in (("show", "pending"), ("approve", "applied"), ("undo", "applied")):
        assert made in invoke("codemods", step, made, exits=0).stdout
        (listed,) = printed(invoke("codemods", "list", "--json"))
        assert (listed["codemodId"], listed["graphs"]) == (made, {"testgraph001": status})
        assert (NEW in invoke("export", "testgraph001").stdout) is (step == "approve")
    shown = invoke("codemods", "list").stdout
    assert f"{OLD} → {NEW}" in shown
    assert "1 applied" in shown


@pytest.mark.usefixtures("db")
def test_without_a_replacement_the_list_says_how_one_is_made() -> None:
    assert "nodius replace OLD NEW" in invoke("codemods", "list", exits=3).stderr
