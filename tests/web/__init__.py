"""The page's own scripts, run by Node.js: what needs no browser."""
