"""rlm as an MCP server: questions about files too long for a context, for programs that speak MCP.

`app.py` has the tools, `documents.py` what may be read, `sessions.py` the runs. Not here: tools of other servers, which
are `rlm.mcp`.
"""
