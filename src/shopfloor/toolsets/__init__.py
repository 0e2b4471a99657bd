"""The toolsets: one folder each, with one contract."""
