"""Connect MCP clients: config files, the entries they need, and a check that lists the tools as a client would."""
