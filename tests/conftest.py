"""Settings of every test: databases and running stacks as fixtures, Hypothesis without surprises."""

from hypothesis import settings

pytest_plugins = ["tests.fixtures.database", "tests.fixtures.openenv", "tests.fixtures.stack"]

settings.register_profile("kedge", derandomize=True, deadline=None)
settings.load_profile("kedge")
