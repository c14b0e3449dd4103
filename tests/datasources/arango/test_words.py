"""Words: a node's own and those of its type are together the words of its whole text."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datasources.arango.words import NO_WORDS, TypeWords, own_words
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
    own, kind = own_words(node), TypeWords.of(config)
    unnamed = own["unnamed"] is not None and own["unnamed"] != kind.letters
    for field, length, whole in (
        ("content", "contentLength", tokenize(text.content)),
        ("name", "nameLength", tokenize(text.names)),
    ):
        terms = list(dict.fromkeys(whole))
        more = kind.variant(terms, inherits_name=unnamed, inherits_code=process is None)
        counted = {
            term: own[field].get(term, 0) + count for term, count in zip(terms, more[field], strict=True)
        }
        assert counted == Counter(whole)
        assert own[length] + more[length] == len(whole)


def test_nothing_is_inherited_from_a_type_that_is_not_known() -> None:
    variants = NO_WORDS.inherited(["a", "b"])["variants"]
    assert len(variants) == 4
    assert all(variant["content"] == [0, 0] and variant["nameLength"] == 0 for variant in variants)
