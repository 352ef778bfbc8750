"""What tests of whole processes share: a served gateway, a terminal, the commands."""
