"""Measures this service beside other ways of retrieving from a graph: same graphs,
vectors and questions.
"""
