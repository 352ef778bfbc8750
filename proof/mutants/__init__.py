"""Every guard of the source, each with the change that removes it and the test that notices.

`proof/guards/` is the table, one file for each source file; `python -m proof mutants` makes each
change, runs the test that must fail, and says which did not.
"""
