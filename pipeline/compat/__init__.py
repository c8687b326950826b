"""Loaders with the names and arguments of other libraries: each builds a plan, and imports its library."""
