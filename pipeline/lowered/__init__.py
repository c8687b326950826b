"""Stages without verbs, which only passes produce. The stages share the files with an underscore."""
