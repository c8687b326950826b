"""What runs in the model, not in the loader."""
