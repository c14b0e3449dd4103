"""The samples that come with the service: body builders of a restaurant, the demo API, a workflow.

Their data (agent documents, call scripts) is in `mock_data`. The builders are registered by
name (`restaurant_bodies`) when the service starts.

From outside: `demo_api`, `sample_graph`.
"""
