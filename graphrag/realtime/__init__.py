"""Realtime models: their interface, the client of OpenAI's service, messages and settings."""
