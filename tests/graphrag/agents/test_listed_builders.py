"""Builders of bodies that an installed package brings: a setting lists those that are loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphrag.app.wiring import open_shared
from graphrag.config import Settings, SettingsError
from tools.http import builders

CODE = """
from pydantic import BaseModel

class NoOptions(BaseModel):
    pass

def build(args, ctx, session, options, about):
    return {"items": args["items"]}

builder = (build, NoOptions)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a builder named shop_basket, and one whose module fails."""
    (tmp_path / "shop_builders.py").write_text(CODE)
    facts = tmp_path / "shop_builders-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-builders\nVersion: 1.0\n")
    points = "shop_basket = shop_builders:builder\nshop_broken = shop_builders:missing\n"
    (facts / "entry_points.txt").write_text(f"[{builders.ENTRY_POINTS}]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(builders, "_registered", dict(builders._registered))
    return tmp_path


async def test_a_listed_builder_builds_the_bodies_of_documents(package: Path) -> None:
    assert "shop_basket" not in builders.builder_names()
    settings = Settings(db="memory:", embeddings="none", body_builders=("shop_basket",))
    for _ in range(2):  # a process may open its services twice
        async with open_shared(settings):
            assert builders.parse_builder("shop_basket").name == "shop_basket"


@pytest.mark.parametrize("name", ["nobody_brings_it", "shop_broken"])
async def test_a_listed_builder_that_cannot_be_loaded_is_a_wrong_setting(package: Path, name: str) -> None:
    settings = Settings(db="memory:", embeddings="none", body_builders=(name,))
    with pytest.raises(SettingsError, match="NODIUS_BODY_BUILDERS"):
        async with open_shared(settings):
            raise AssertionError
