"""Holds phone calls with declarative agents: both sides, what is decided in them, records.

From outside: `calls`, `call_places`, `call_parts` (calls of this process), `call_records`,
`call_transcript`, `call_after`, `call_errors`, `openai_side`, `twiml`.
"""
