"""Tests of declarative agents."""
