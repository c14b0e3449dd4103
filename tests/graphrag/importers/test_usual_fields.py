"""The usual fields of imported node types, as forms offer them."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest
from jsonschema import Draft202012Validator

from graphrag.importers.usual_fields import usual_schema


def test_parameters_of_n8n_lie_under_their_name_and_properties_of_node_red_beside_one_another() -> (
    None
):
    call = usual_schema("n8n", "n8n-nodes-base.httpRequest")
    assert call is not None
    parameters = call["properties"]["parameters"]["properties"]
    assert parameters["url"] == {"type": "string"}
    assert "PATCH" in parameters["method"]["enum"]
    inject = usual_schema("node-red", "inject")
    assert inject is not None
    assert inject["properties"]["once"] == {"type": "boolean"}


@pytest.mark.parametrize("family", [None, "nodius", "n8n", "node-red", 7])
def test_types_without_usual_fields_have_no_schema(family: object) -> None:
    assert usual_schema(family, "a-type-of-nobody") is None


@pytest.mark.parametrize(
    ("family", "package"),
    [("n8n", "graphrag.importers.n8n"), ("node-red", "graphrag.importers.node_red")],
)
def test_every_usual_field_can_be_shown_in_a_form(family: str, package: str) -> None:
    text = resources.files(package).joinpath("fields.toml").read_text("utf-8")
    for name in tomllib.loads(text):
        Draft202012Validator.check_schema(usual_schema(family, name) or False)
