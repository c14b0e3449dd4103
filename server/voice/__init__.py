"""Calls by telephone and from the browser: webhook, audio, records."""
