"""The transports: HTTP, MCP, stdio."""
