"""Tool servers: programs that speak the Model Context Protocol and lend their tools."""
