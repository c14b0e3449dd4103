"""Calls by telephone and from the browser: their webhook, their sound, their records."""
