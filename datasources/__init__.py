"""Stored graphs: their data types, the interfaces to read and write them, and their stores."""
