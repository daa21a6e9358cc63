"""Route a brief through four specialists: whom to ask, in what order, and when enough is known."""
