"""Oversee five workers: find the faulty ones under noisy flags, and let the sound ones run."""
