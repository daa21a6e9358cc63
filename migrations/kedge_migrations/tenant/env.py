"""Run this tree over the connection that `kedge_migrations.upgrade` hands in."""

from alembic import context
from sqlalchemy import text

connection = context.config.attributes["connection"]
schema = context.config.attributes["schema"]
connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
context.configure(connection=connection, version_table_schema=schema, transactional_ddl=True)
context.run_migrations()
