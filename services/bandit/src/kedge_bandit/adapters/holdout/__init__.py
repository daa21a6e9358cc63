"""Fetch answers to cases, judge them and check them."""
