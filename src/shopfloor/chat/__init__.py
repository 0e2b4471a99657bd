"""The todo assistant: a model that works on one user's list, with that user's rights and no more."""
