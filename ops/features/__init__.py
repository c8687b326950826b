"""Moving rows."""
