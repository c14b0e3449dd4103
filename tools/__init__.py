"""What a model can call: arguments and their schemas, tools that read or propose, results
as compact text.

From outside: `base`, `read_tools`, `write_tools`, `checks`, `proposals` and `proposal_parts` (the
actions), `arguments`, `lenient_json`, `references`, `compact` and `toon`.
"""
