"""One tenant's record, from the very text that onboarding runs."""

from pathlib import Path

from alembic import context, op

revision = "t0001"
down_revision = None


def upgrade() -> None:
    attributes = context.config.attributes
    ddl = (Path(__file__).parent / "0001_tenant.sql").read_text(encoding="utf-8")
    quoted = ddl.replace("{schema}", f'"{attributes["schema"]}"').replace("{role}", f'"{attributes["role"]}"')
    op.get_bind().exec_driver_sql(quoted, execution_options={"no_parameters": True})


def downgrade() -> None:
    raise NotImplementedError("irreversible: the first revision holds the tenant's record; erase the tenant instead")
