"""What is decided in a phone call with a declarative agent; no channel carries it out yet.

From outside: `bridge`, `signals`, `voice_session`.
"""
