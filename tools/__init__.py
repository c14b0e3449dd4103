"""The tools that a model can call: their arguments and schemas, tools that read or propose
changes, and results as compact text.

Public: `base`, `tool_box`, `past_changes`, `read_tools`, `write_tools`, `checks`, `proposals` and
`proposal_parts` (the actions), `arguments`, `lenient_json`, `references`, `compact` and `toon`.
"""
