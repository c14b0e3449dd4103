"""The web service: REST, WebSocket and the page."""
