"""Control schema, onboarding function, group commit; knows the tenant tree's first revision."""

from pathlib import Path

from alembic import op
from sqlalchemy import text

revision = "c0001"
down_revision = None

_HERE = Path(__file__).parent
_TENANT_DDL = _HERE.parents[1] / "tenant" / "versions" / "0001_tenant.sql"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql(
        (_HERE / "0001_control.sql").read_text(encoding="utf-8"), execution_options={"no_parameters": True}
    )
    connection.execute(
        text("INSERT INTO control.tenant_revision (ordinal, revision, ddl) VALUES (1, 't0001', :ddl)"),
        {"ddl": _TENANT_DDL.read_text(encoding="utf-8")},
    )


def downgrade() -> None:
    raise NotImplementedError("irreversible: the first revision holds every tenant's record; drop the database instead")
