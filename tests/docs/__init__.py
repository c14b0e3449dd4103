"""Writes the generated parts of README and of docs/; run it as `python -m tests.docs`."""
