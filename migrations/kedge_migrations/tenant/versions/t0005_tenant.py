"""What watching, experiments and evaluation need of one tenant's record, from the very text that onboarding runs."""

from pathlib import Path

from alembic import context, op

revision = "t0005"
down_revision = "t0004"


def upgrade() -> None:
    attributes = context.config.attributes
    ddl = (Path(__file__).parent / "0005_tenant.sql").read_text(encoding="utf-8")
    quoted = ddl.replace("{schema}", f'"{attributes["schema"]}"').replace("{role}", f'"{attributes["role"]}"')
    op.get_bind().exec_driver_sql(quoted, execution_options={"no_parameters": True})


def downgrade() -> None:
    raise NotImplementedError("irreversible: decisions and settings written since would be lost; restore a backup")
