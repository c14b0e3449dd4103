"""Measures retrieval and answers, on workflows with annotated questions and on knowledge graphs.

Other packages import `workflows` and `knowledge` (the questions), `scoring`, `cells` (the values
that contexts show) and `formats` (files of knowledge graphs); for answers `answer_cases`,
`answer_runs`, `answer_report`, `case_formats`, `made_cases`, `expected_graph` and `context_facts`.
"""
