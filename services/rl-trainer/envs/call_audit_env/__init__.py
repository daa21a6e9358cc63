"""Audit recorded support calls with priced tools: read what matters, flag what is proved, and submit in budget."""
