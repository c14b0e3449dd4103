"""Measures retrieval and answers, on workflows with annotated questions and on knowledge graphs.

Other packages import `workflows` and `measurable_cases` (the questions), `retrieval_runs`,
`scoring`, `cells` (the values that contexts show) and `formats` (files of knowledge graphs); for
answers `answer_cases`, `answer_runs`, `answer_report`, `case_formats`, `made_cases` and
`context_facts`.
"""
