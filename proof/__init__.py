"""The proof: what Tenure promises, checked under orders of events that nobody would think of."""
