"""The Model Context Protocol: other agents read graphs and propose changes, over
HTTP and standard input.

From outside: `http_endpoint`, `stdio_server`, `app_resource`.
"""
