"""Layers of other libraries, and users' own for them, over graphs that this library answers for."""
