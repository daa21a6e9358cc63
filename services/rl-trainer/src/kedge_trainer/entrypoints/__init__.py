"""Processes: the command line."""
