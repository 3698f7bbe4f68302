"""Run by alembic: bring the storage behind the given connection to a version."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
