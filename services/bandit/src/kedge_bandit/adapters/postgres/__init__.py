"""PostgreSQL: tables, ledgers and the hot path's group writer."""
