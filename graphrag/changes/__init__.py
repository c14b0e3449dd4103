"""Changes of a graph in memory: drafts, differences of fields, merging, and taking changes back.

From outside: every name of `field_diff`, `draft` and `change_set`. Nothing here knows a store.
"""
