"""Verbs: one flow per file, the domain does the thinking, the ports do the I/O."""
