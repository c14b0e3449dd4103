"""How many examples a property tries that costs more than most."""

from __future__ import annotations

from hypothesis import settings

_USUAL = settings.get_profile("default").max_examples


def examples(share: float) -> int:
    """Return a share of the usual run's examples; of a profile chosen to look further, all."""
    most = settings.default.max_examples
    return most if most > _USUAL else max(1, round(_USUAL * share))
