"""Renders the prompts of models: Markdown files with declared inputs.

Other packages import the names of `__all__`, `library` for the phrases of a language, and
`quoted_words` for answerers without a model.
"""

from graphrag.prompts.library import PromptError, PromptInputs, RunFacts, render_system_prompt

__all__ = ["PromptError", "PromptInputs", "RunFacts", "render_system_prompt"]
