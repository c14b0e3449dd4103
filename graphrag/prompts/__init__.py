"""What a model is told: Markdown prompts with declared inputs."""

from graphrag.prompts.library import PromptError
from graphrag.prompts.system import PromptInputs, render_system_prompt

__all__ = ["PromptError", "PromptInputs", "render_system_prompt"]
