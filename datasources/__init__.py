"""Stored graphs: their shapes, the seams to read and write them, and the stores
behind the seams.
"""
