"""The samples that come with the service: body builders of a restaurant, and the demo API.

Their data (agent documents, call scripts) is in `mock_data`. Modules for other packages:
`restaurant_bodies`, `demo_api`.
"""
