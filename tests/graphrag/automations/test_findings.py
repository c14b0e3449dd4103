"""Findings of two reports are compared by their words."""

import pytest

from graphrag.automations.findings import compare, findings_of
from graphrag.sessions.agent_session import SessionReport


def found(text: str) -> list[str]:
    return findings_of(SessionReport(outcome="findings", text=text))


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ("- The node `a` leads **nowhere** (error)", "* The node a leads nowhere (warning)."),
        ("1. The node {{node:a}} leads nowhere", "2) the Node node:a  leads nowhere"),
        ("- The node a leads nowhere: it was applied.", "- The node a leads nowhere"),
    ],
)
def test_a_finding_written_otherwise_is_the_same(now: str, before: str) -> None:
    compared = compare(found(now), found(before))
    assert (len(compared.same), compared.new, compared.gone) == (1, (), ())


def test_another_node_is_another_finding_and_a_short_text_begins_none() -> None:
    compared = compare(found("- Node a2 is never reached by any other"), found("- Node a"))
    assert (len(compared.new), compared.same, len(compared.gone)) == (1, (), 1)


def test_a_report_without_a_list_is_one_finding_and_one_without_findings_none() -> None:
    assert found("Something is odd.\n\nRead it.") == ["Something is odd."]
    assert findings_of(SessionReport(outcome="ok", text="- All is well")) == []
    assert findings_of(None) == []


def test_a_report_of_any_size_is_bounded() -> None:
    assert len(found("\n".join(f"- the thing number {i} is wrong" for i in range(2000)))) == 200
