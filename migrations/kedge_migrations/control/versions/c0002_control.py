"""What replicas, caps and local decisions need of the control schema; knows the tenant tree's second revision."""

from pathlib import Path

from alembic import op
from sqlalchemy import text

revision = "c0002"
down_revision = "c0001"

_HERE = Path(__file__).parent
_TENANT_DDL = _HERE.parents[1] / "tenant" / "versions" / "0002_tenant.sql"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql(
        (_HERE / "0002_control.sql").read_text(encoding="utf-8"), execution_options={"no_parameters": True}
    )
    connection.execute(
        text("INSERT INTO control.tenant_revision (ordinal, revision, ddl) VALUES (2, 't0002', :ddl)"),
        {"ddl": _TENANT_DDL.read_text(encoding="utf-8")},
    )


def downgrade() -> None:
    raise NotImplementedError("irreversible: decisions and settings written since would be lost; restore a backup")
