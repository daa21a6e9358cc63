"""Bring a database to the present schema: the control tree once, the tenant tree for every tenant that is behind."""

from kedge_migrations.upgrade import TENANT_HEAD, enable_login, upgrade

__all__ = ["TENANT_HEAD", "enable_login", "upgrade"]
