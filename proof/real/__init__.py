"""What is tried on the real server: real processes, sockets, files, database."""
