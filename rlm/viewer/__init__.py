"""The page: recorded runs in a browser, live or later, and one run as a file that needs no server.

A trace is untrusted text. The page shows it as text only, the server answers only its own page, and nothing here writes
to a trace.
"""
