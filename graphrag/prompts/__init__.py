"""Renders the prompts of models: Markdown files with declared inputs.

From outside: what stands in `__all__`, and `library` for the phrases of a language.
"""

from graphrag.prompts.library import PromptError
from graphrag.prompts.system import PromptInputs, render_system_prompt

__all__ = ["PromptError", "PromptInputs", "render_system_prompt"]
