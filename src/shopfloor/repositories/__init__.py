"""Repositories: all SQL outside the store."""
