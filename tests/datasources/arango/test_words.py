"""Words: a node's own and those of its type are together the words of its whole text."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datasources.arango.graph_documents import TypeWords, own_words
from datasources.text import node_text, tokenize
from datasources.types import NodeTypeConfig, TypeTemplate
from tests.contracts.samples import a_node

words = st.lists(
    st.sampled_from(["Sort", "invoices", "Écrire", "文字列", "fetchUser", "x2", "", "log-node"]), max_size=3
).map(" ".join)
texts = words | st.none()


@given(
    key=st.sampled_from(["log_node", "a", "é b", "fetchUser"]),
    name=texts | st.just("a"),
    process=texts,
    display=words,
    description=words,
    type_process=texts,
)
def test_own_and_inherited_words_are_those_of_the_whole_text(
    key: str, name: str | None, process: str | None, display: str, description: str, type_process: str | None
) -> None:
    data: dict[str, Any] = {"rule": "sort 7"} if name is None else {"name": name, "rule": "sort 7"}
    node = a_node(key, data=data, process=process, type="task")
    template = TypeTemplate(type="task", process=type_process)
    config = NodeTypeConfig(
        key="t", workspace="w", display_name=display, description=description, node=template
    )
    text = node_text(node, config)
    own, kind = own_words(node, None), TypeWords.of(config)
    unnamed = own["unnamed"] is not None and own["unnamed"] != kind.letters
    for field, length, whole in (
        ("content", "contentLength", tokenize(text.content)),
        ("name", "nameLength", tokenize(text.names)),
    ):
        terms = list(dict.fromkeys(whole))
        more = kind.inherited(terms)
        parts = [more["name"]] * (2 if unnamed else 1)
        if field == "content":
            parts += [more["description"], *([more["process"]] if process is None else [])]
        counted = {
            term: own[field].get(term, 0) + sum(part["counts"][place] for part in parts)
            for place, term in enumerate(terms)
        }
        assert counted == Counter(whole)
        assert own[length] + sum(part["length"] for part in parts) == len(whole)
