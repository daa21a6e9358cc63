"""What proposals, the gate and ramps need of the control schema; knows the tenant tree's fourth revision."""

from pathlib import Path

from alembic import op
from sqlalchemy import text

revision = "c0004"
down_revision = "c0003"

_HERE = Path(__file__).parent
_TENANT_DDL = _HERE.parents[1] / "tenant" / "versions" / "0004_tenant.sql"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql(
        (_HERE / "0004_control.sql").read_text(encoding="utf-8"), execution_options={"no_parameters": True}
    )
    connection.execute(
        text("INSERT INTO control.tenant_revision (ordinal, revision, ddl) VALUES (4, 't0004', :ddl)"),
        {"ddl": _TENANT_DDL.read_text(encoding="utf-8")},
    )


def downgrade() -> None:
    raise NotImplementedError("irreversible: decisions and settings written since would be lost; restore a backup")
