"""Processes: server, worker, web, command line; wired by hand in one file."""
