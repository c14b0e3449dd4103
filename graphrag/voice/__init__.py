"""The voice channel: a phone call answered by a declarative agent.

The bridge decides and knows no socket; what carries its decisions out stands around it.
"""
