"""The web service: REST, WebSocket and the page. Reserved: nothing is served yet."""
