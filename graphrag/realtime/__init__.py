"""Realtime models: their interface, the client of OpenAI's service, messages and settings.

Public: `model_side`, `model_messages` and `session_settings`.
"""
