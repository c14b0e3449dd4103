"""The models that agents of documents name: each is made once, and a stranger's names fill no memory."""

from __future__ import annotations

from graphrag.app.models import MAX_OTHERS, OtherModels
from graphrag.config import Settings


async def test_a_model_is_made_once_and_of_very_many_the_last_used_are_kept() -> None:
    others = OtherModels(Settings(openai_api_key="sk-test"))  # type: ignore[arg-type]
    first, _ = others.of("openai", "model-0")
    assert first.model == "model-0"
    for number in range(1, 3 * MAX_OTHERS):
        others.of("openai", f"model-{number}")
        assert others.of("openai", "model-0")[0] is first, "one that is used is kept"
    forgotten, _ = others.of("openai", "model-1")
    assert forgotten.model == "model-1"
    assert len(others._made) == MAX_OTHERS  # pyright: ignore[reportPrivateUsage]
    await others.aclose()
    await first.aclose()
