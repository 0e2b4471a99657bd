"""Files of other task trackers: read them as plans, and write plans as their files."""
