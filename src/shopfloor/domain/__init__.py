"""The domain: types and rules, without I/O."""
