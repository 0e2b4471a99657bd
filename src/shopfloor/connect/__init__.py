"""Connect MCP clients: their config files, the entries they need, and a check that lists the tools as they would."""
