"""From a proposed action to the change that carries it out, and back."""

from __future__ import annotations

from graphrag.actions.converter import ActionConversionResult, convert_action
from graphrag.actions.mutation import inverse_mutation, to_mutation
from graphrag.actions.settle import settle

__all__ = ["ActionConversionResult", "convert_action", "inverse_mutation", "settle", "to_mutation"]
