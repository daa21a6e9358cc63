"""Describe a schema by what the database's catalogs say of it, one line for each thing, names of its own left open."""

from typing import Any

import psycopg

_RELATIONS = """
SELECT concat_ws(' ', 'relation', c.relname, c.relkind, c.relpersistence, 'owner', o.rolname, 'rights', c.relacl,
    'options', c.reloptions, 'of', (SELECT p.inhparent::regclass FROM pg_inherits p WHERE p.inhrelid = c.oid),
    'bound', pg_get_expr(c.relpartbound, c.oid), 'key', pg_get_partkeydef(c.oid),
    'row rules', c.relrowsecurity, c.relforcerowsecurity, 'replica', c.relreplident)
FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind NOT IN ('i', 'I')
"""
_COLUMNS = """
SELECT concat_ws(' ', 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), 'filled', a.attnotnull,
    'default', pg_get_expr(d.adbin, d.adrelid), 'identity', a.attidentity, 'generated', a.attgenerated,
    'collation', a.attcollation, 'rights', a.attacl,
    'place', row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum))
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = %(schema)s::regnamespace
"""
_CONSTRAINTS = """
SELECT concat_ws(' ', 'constraint', r.relname, c.conname, pg_get_constraintdef(c.oid), 'valid', c.convalidated)
FROM pg_constraint c LEFT JOIN pg_class r ON r.oid = c.conrelid WHERE c.connamespace = %(schema)s::regnamespace
"""
_INDEXES = """
SELECT concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid), 'valid', i.indisvalid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = %(schema)s::regnamespace
"""
_TRIGGERS = """
SELECT concat_ws(' ', 'trigger', pg_get_triggerdef(t.oid), 'enabled', t.tgenabled)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = %(schema)s::regnamespace AND NOT t.tgisinternal
"""
_FUNCTIONS = """
SELECT concat_ws(' ', 'function', pg_get_functiondef(p.oid), 'owner', o.rolname, 'rights', p.proacl)
FROM pg_proc p JOIN pg_roles o ON o.oid = p.proowner WHERE p.pronamespace = %(schema)s::regnamespace
"""
_REST = """
SELECT concat_ws(' ', 'schema owner', o.rolname, 'rights', n.nspacl)
FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner WHERE n.oid = %(schema)s::regnamespace
UNION ALL
SELECT concat_ws(' ', 'type', t.typname, t.typtype,
    (SELECT string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid))
FROM pg_type t WHERE t.typnamespace = %(schema)s::regnamespace AND t.typtype IN ('d', 'e', 'r')
UNION ALL
SELECT concat_ws(' ', 'row rule', p.polname, pg_get_expr(p.polqual, p.polrelid))
FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = %(schema)s::regnamespace
UNION ALL
SELECT concat_ws(' ', 'statistics', pg_get_statisticsobjdef(s.oid))
FROM pg_statistic_ext s WHERE s.stxnamespace = %(schema)s::regnamespace
UNION ALL
SELECT concat_ws(' ', 'default rights', d.defaclobjtype, d.defaclacl)
FROM pg_default_acl d WHERE d.defaclnamespace = %(schema)s::regnamespace
"""
_PARTS = (_RELATIONS, _COLUMNS, _CONSTRAINTS, _INDEXES, _TRIGGERS, _FUNCTIONS, _REST)


def catalog(connection: psycopg.Connection[Any], schema: str, role: str) -> list[str]:
    """Describe everything in a schema; its own name and its role's, quoted or not, are left open for a comparison."""
    lines = [line for part in _PARTS for (line,) in connection.execute(part, {"schema": schema})]
    for name, open_name in ((role, "{role}"), (schema, "{schema}")):
        lines = [line.replace(f'"{name}"', open_name).replace(name, open_name) for line in lines]
    return sorted(lines)


def rows_of(connection: psycopg.Connection[Any], schema: str) -> dict[str, list[dict[str, Any]]]:
    """Read every row of every table that is no partition, as column to value."""
    tables = connection.execute(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p')"
        " AND NOT c.relispartition ORDER BY c.relname",
        (schema,),
    ).fetchall()
    return {
        name: [row for (row,) in connection.execute(f'SELECT to_jsonb(t) FROM "{schema}"."{name}" t ORDER BY t::text')]
        for (name,) in tables
    }
