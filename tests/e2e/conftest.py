"""A running service with one tenant and one policy, as a core application of that tenant reaches it."""

from collections.abc import Iterator

import pytest

from tests.fixtures.core_app import TENANT
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack


@pytest.fixture(scope="module")
def services(stack: Stack) -> Iterator[Services]:
    key = stack.tenant(TENANT)
    stack.put_policy(two_models(TENANT))
    with stack.services(key) as connected:
        yield connected
