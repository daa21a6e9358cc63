"""Verbs of the trainer, one flow per file, over ports."""
