"""The steps of the pipeline, one file each; build.py puts them in order."""
