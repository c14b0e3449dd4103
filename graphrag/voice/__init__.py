"""Holds phone calls with declarative agents: both sides, what is decided in them, records, simulation."""
