"""The page: recorded runs in a browser, live or later, and one run as a file that needs no server.

What is on record is hostile text. The page puts it on screen as text and nothing else, the server answers only its own
page, and nothing here writes to a trace.
"""
