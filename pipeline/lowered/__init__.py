"""What passes say: stages without verbs, which nobody writes by hand."""
