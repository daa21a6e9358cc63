"""How much of a trust test runs: a sample in `make test`, all of it in `make trust`."""

import os

IS_FULL = os.environ.get("KEDGE_TEST_FULL") == "1"


def of(sample: int, full: int) -> int:
    """Pick how often to repeat."""
    return full if IS_FULL else sample
