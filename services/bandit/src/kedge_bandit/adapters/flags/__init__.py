"""The kill switch behind OpenFeature: our own provider, and what a plugged one says."""
