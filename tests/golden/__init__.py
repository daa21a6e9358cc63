"""Hold what must stay the same in every language and release. `make golden` writes it; review the diff like code."""
