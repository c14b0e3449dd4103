"""From a proposed action to the change that carries it out, and back."""

from __future__ import annotations

from graphrag.approvals.actions.converter import ActionConversionResult, convert_action
from graphrag.approvals.actions.mutation import inverse_mutation, to_mutation

__all__ = ["ActionConversionResult", "convert_action", "inverse_mutation", "to_mutation"]
