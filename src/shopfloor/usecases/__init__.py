"""What can be done: one function per deed, under the rules of the domain."""
