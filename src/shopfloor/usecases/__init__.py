"""Use cases: one function per operation, under the rules of the domain."""
