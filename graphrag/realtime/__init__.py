"""Realtime models: their interface, the client of OpenAI's service, messages and settings.

From outside: `model_side`, `model_messages` and `session_settings`.
"""
