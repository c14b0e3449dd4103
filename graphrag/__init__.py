"""The service itself: importing, embedding, retrieving, writing contexts and
prompts, settings, errors.
"""
