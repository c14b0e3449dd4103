"""The agent: its loop, one turn, tool calls, history, events and stored threads.

From outside: `loop`, `events`, `thread_store`.
"""
