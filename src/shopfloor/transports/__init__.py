"""The doors: HTTP, MCP, stdio."""
