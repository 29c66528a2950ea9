// What an import reads of the system catalogs of PostgreSQL. $1: the schema; $2: the table.

/** Tables, partitioned tables without their partitions, foreign tables, views and materialized views. */
export const relations = `
SELECT c.relname AS name, c.relkind AS kind, obj_description(c.oid, 'pg_class') AS comment,
  CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END AS definition
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'f', 'v', 'm') AND NOT c.relispartition
  AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY c.relname COLLATE "C"`;

export const columns = `
SELECT a.attname AS name,
  format_type(coalesce(nullif(t.typbasetype, 0), a.atttypid), CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END) AS type,
  coalesce(e.typnamespace, coalesce(b.typnamespace, t.typnamespace)) = 'pg_catalog'::regnamespace AS is_built_in,
  CASE WHEN t.typtype = 'd' THEN t.typname END AS domain,
  coalesce(b.typtype, t.typtype) = 'e' AS is_enum,
  NOT (a.attnotnull OR t.typnotnull) AS nullable,
  pg_get_expr(d.adbin, d.adrelid) AS default,
  col_description(c.oid, a.attnum) AS comment,
  a.attgenerated <> '' AS is_generated,
  a.attidentity <> '' AS is_identity
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON b.oid = nullif(t.typbasetype, 0)
LEFT JOIN pg_type e ON e.oid = nullif(coalesce(b.typelem, t.typelem), 0) AND coalesce(b.typcategory, t.typcategory) = 'A'
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`;

export const constraints = `
SELECT k.contype AS kind, pg_get_constraintdef(k.oid) AS definition,
  (SELECT json_agg(a.attname ORDER BY u.position) FROM unnest(k.conkey) WITH ORDINALITY AS u(number, position)
    JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number)::text AS names
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND k.contype IN ('p', 'u', 'c', 'f', 'x')
ORDER BY k.contype = 'p' DESC, k.conname COLLATE "C"`;

/** Other objects of the schema, and other schemas with tables. */
export const others = `
SELECT object, kind, text FROM (
  SELECT i.relname AS object, 'index' AS kind, 'is not needed: queries read only what can match' AS text
  FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid JOIN pg_namespace n ON n.oid = i.relnamespace
  WHERE n.nspname = $1 AND NOT c.relispartition AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.oid)
  UNION ALL SELECT c.relname, 'sequence', 'there are no sequences'
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relkind = 'S' AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i')
  UNION ALL SELECT c.relname || '.' || g.tgname, 'trigger', 'there are no triggers'
  FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND NOT g.tgisinternal
  UNION ALL SELECT c.relname || '.' || p.polname, 'row policy', 'all rows are read and copied'
  FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1
  UNION ALL SELECT c.relname || '.' || r.rulename, 'rule', 'there are no rules'
  FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND r.rulename <> '_RETURN'
  UNION ALL SELECT p.proname, 'function', 'there are no functions of users'
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname = $1 AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
  UNION ALL SELECT n.nspname, 'schema', 'import it with --schema into another database'
  FROM pg_namespace n WHERE n.nspname <> $1 AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
    AND EXISTS (SELECT 1 FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p'))
) AS found ORDER BY kind, object COLLATE "C"`;
