"""How good retrieval and answers are: scored on workflows with annotated questions, and
on knowledge graphs.

From outside: `workflows` and `knowledge` (what is asked), `scoring`, `cells` (what contexts show),
`formats` (files of knowledge graphs); of answers `answer_cases`, `answer_runs`, `answer_report`,
`case_formats`, `made_cases`, `expected_graph` and `context_facts`.
"""
