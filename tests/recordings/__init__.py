"""Documents that the page is sent, recorded from the server for the tests of the page."""
