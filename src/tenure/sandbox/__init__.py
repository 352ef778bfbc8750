"""Where a session's commands run, and where its files are."""
