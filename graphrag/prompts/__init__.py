"""Renders the prompts of models: Markdown files with declared inputs.

From outside: also `library`, for the phrases of a language.
"""

from graphrag.prompts.library import PromptError, PromptInputs, render_system_prompt

__all__ = ["PromptError", "PromptInputs", "render_system_prompt"]
