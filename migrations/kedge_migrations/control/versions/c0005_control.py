"""What watching, experiments and evaluation need of the control schema; knows the tenant tree's fifth revision."""

from pathlib import Path

from alembic import op
from sqlalchemy import text

revision = "c0005"
down_revision = "c0004"

_HERE = Path(__file__).parent
_TENANT_DDL = _HERE.parents[1] / "tenant" / "versions" / "0005_tenant.sql"


def upgrade() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql(
        (_HERE / "0005_control.sql").read_text(encoding="utf-8"), execution_options={"no_parameters": True}
    )
    connection.execute(
        text("INSERT INTO control.tenant_revision (ordinal, revision, ddl) VALUES (5, 't0005', :ddl)"),
        {"ddl": _TENANT_DDL.read_text(encoding="utf-8")},
    )


def downgrade() -> None:
    raise NotImplementedError("irreversible: decisions and settings written since would be lost; restore a backup")
