"""The page in a browser, on a real server."""
