"""Repositories: all SQL outside of the store."""
