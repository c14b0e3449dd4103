"""Declarative agents: their documents, versions and states, and the conversations that follow them.

From outside: `document`, `checking`, `manager`, `chats`.
"""
