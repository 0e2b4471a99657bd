"""The toolsets: one room each, with one contract."""
