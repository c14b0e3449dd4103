"""The actions that a proposal may consist of: one class each, which knows all about its kind.

`tools.proposals` registers them. A proposed change is written as an action, read, resolved, checked
against the graph, converted into what stores carry out, titled, hashed and stored by its class;
what takes it back is computed from what it changed, for every kind alike.
"""
