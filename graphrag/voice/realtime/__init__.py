"""The realtime model: the client of OpenAI's interface, and a double of its server for work
without a key.
"""
