"""Data sets on disk: a folder of arrays with a manifest."""
