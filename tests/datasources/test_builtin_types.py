"""Which node type a name means: the workspace's own, else root's, else the built-in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.builtin_types import BUILTIN_TYPES, types_by_name, visible_types
from datasources.types import ROOT_WORKSPACE, NodeTypeConfig, parse_document
from tests.contracts.samples import WORKSPACE, a_type

configs = st.lists(st.tuples(st.sampled_from("kxyz"), st.sampled_from(["task", "html", "log"])), max_size=5)


def types(pairs: list[tuple[str, str]], workspace: str) -> list[NodeTypeConfig]:
    return [a_type(name, workspace, key=key) for key, name in dict(pairs).items()]


@given(configs, configs)
def test_one_type_a_name_ours_first_then_by_key(
    own_pairs: list[tuple[str, str]], root_pairs: list[tuple[str, str]]
) -> None:
    own, root = types(own_pairs, WORKSPACE), types(root_pairs, ROOT_WORKSPACE)
    seen = visible_types(own, root)
    assert [c.key for c in seen] == sorted(c.key for c in seen)
    assert {c.type for c in seen} == {c.type for c in own + root}
    assert len({c.type for c in seen}) == len(seen)
    for config in seen:
        rivals = [c for c in own if c.type == config.type] or [c for c in root if c.type == config.type]
        assert config == min(rivals, key=lambda c: c.key)


def test_a_stored_type_wins_over_the_built_in_of_its_name() -> None:
    mine = a_type("html")
    meant = types_by_name([mine])
    assert meant["html"] is mine
    assert meant["starter"] is BUILTIN_TYPES["starter"]


def test_the_built_in_types_are_complete_documents_that_cannot_be_changed() -> None:
    assert set(BUILTIN_TYPES) == {"starter", "return", "html", "entryType"}
    for name, config in BUILTIN_TYPES.items():
        assert config.type == config.key == name
        assert config.description
        assert config.display_name
        assert parse_document(NodeTypeConfig, config.to_json(), "node_configs") == config
    with pytest.raises(TypeError):
        BUILTIN_TYPES["starter"] = BUILTIN_TYPES["html"]  # type: ignore[index]
