"""Nouns of the trainer: splits of seeds, intervals, errors. No I/O, no framework."""
