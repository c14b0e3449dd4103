"""Changes of a graph in memory: drafts, differences of fields, merging, and undoing changes.

Independent of any store. Other packages import the names of `field_diff`, `draft` and `change_set`.
"""
