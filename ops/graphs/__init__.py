"""Building, vetting and reordering graphs."""
