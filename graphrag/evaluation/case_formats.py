"""Writes questions of a file of cases in the formats of other evaluation tools.

Sources: a test case of promptfoo has `description`, `vars`, `assert` (each with `type` and `value`)
and `metadata` (https://promptfoo.dev/config-schema.json); a sample of Inspect has `input`,
`target`, `id` and `metadata` (https://inspect.aisi.org.uk/datasets.html).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from graphrag.evaluation.answer_cases import AskedQuestion, Case, Fact

ExportFormat = Literal["promptfoo", "inspect"]

_TEMPLATE = re.compile(r"\{[{%#]")


def exportable(cases: Sequence[Case]) -> list[tuple[Case, AskedQuestion]]:
    """Returns the questions whose answers can be judged by their text alone.

    Changes, and questions whether two nodes are connected, need the graph.
    """
    return [
        (case, case.asked)
        for case in cases
        if isinstance(case.asked, AskedQuestion)
        and case.asked.connected is None
        and (case.asked.facts or case.asked.must_not)
    ]


def promptfoo_test(case: Case, question: AskedQuestion) -> dict[str, Any]:
    """Returns a question as a promptfoo test case, with an assertion for each fact."""
    return {
        "description": case.id,
        "vars": {"question": question.ask},
        "assert": [
            *(_assertion(fact) for fact in question.facts),
            *(_assertion(fact, negated=True) for fact in question.must_not),
        ],
        "metadata": {"workflow": case.file},
    }


def inspect_sample(case: Case, question: AskedQuestion) -> dict[str, Any]:
    """Returns a question as a sample of Inspect.

    With a single fact, the target is the list of its alternatives, for the scorer `includes`. With
    several, it is a text for a grader.
    """
    facts = [_alternatives(fact) for fact in question.facts]
    required = "; ".join(" or ".join(fact) for fact in facts)
    forbidden = (
        f" It does not mention: {'; '.join(question.must_not)}." if question.must_not else ""
    )
    is_single = len(facts) == 1 and not question.must_not
    mentions = f"The answer mentions all of: {required}." if facts else ""
    return {
        "id": case.id,
        "input": question.ask,
        "target": facts[0] if is_single else f"{mentions}{forbidden}".strip(),
        "metadata": {"workflow": case.file, "must": facts, "must_not": list(question.must_not)},
    }


EXPORTS: Final[dict[ExportFormat, Callable[[Case, AskedQuestion], dict[str, Any]]]] = {
    "promptfoo": promptfoo_test,
    "inspect": inspect_sample,
}


def _assertion(fact: Fact, *, negated: bool = False) -> dict[str, Any]:
    texts = _alternatives(fact)
    kind = "icontains-any"
    value = [_escaped(text) for text in texts]
    if all(text.isdigit() for text in texts):  # 3 must not match in 13
        kind = "regex"
        value = rf"\b({'|'.join(texts)})\b"
    return {"type": f"not-{kind}" if negated else kind, "value": value}


def _alternatives(fact: Fact) -> list[str]:
    return [fact] if isinstance(fact, str) else list(fact)


def _escaped(text: str) -> str:
    """Returns a text that promptfoo's templates leave unchanged."""
    return f"{{% raw %}}{text}{{% endraw %}}" if _TEMPLATE.search(text) else text
