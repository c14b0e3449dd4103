"""How many examples a property tries that costs more than most."""

from __future__ import annotations

from hypothesis import settings

_USUAL = "default"


def examples(share: float) -> int:
    """Return a share of the usual run's examples; of a profile chosen to look further, all."""
    most = settings.default.max_examples
    return max(1, round(most * share)) if settings.get_current_profile_name() == _USUAL else most
