"""Finds the nodes of a graph that answer a question and writes them as context for a model.

From outside: `retriever`, `retrieval_result`, `rank`, `second_look` and `workspace_search`
(finding), `context`, `turn_context`, `context_rows`, `outline`, `always_sent` and `prepared_prompt`
(writing), `suggestions`, `signals`.
"""
