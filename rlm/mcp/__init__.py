"""Tools and resources of MCP servers: functions in the REPL that are served by the host, and inputs of a task.

`servers.py` is the way in; `settings.py` says what a server is. Not here: rlm as a server, which is `rlm.mcp_server`.
Nothing of the package `mcp` is imported before a server is needed.
"""
