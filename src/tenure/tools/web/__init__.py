"""Tools that reach the web: reading a page, and searching."""
