"""The soak: everything that a session can hold, again and again, with faults."""
