// Converts the definition of a table from a request to its stored form: defaults filled in, references checked, and the effects of
// a change of columns on keys and order. No I/O, except that the engine checks defaults.
import type { ColumnBody, DefinitionBody } from '../../api/tables/table_fields.ts';
import type { Engine, EngineWarehouse } from '../../engines/port/engine.ts';
import { requireCapability } from '../../engines/required_capability.ts';
import { foldName, nameFault } from '../../model/names.ts';
import type { ColumnDefinition, ColumnSpec, TableDefinition, TableSpec } from '../../model/records.ts';
import { formatType, type LogicalType, parseType, TypeSyntaxError } from '../../model/types.ts';
import { Failure, type Violation, violationsFailure } from '../../standard/failure.ts';
import { defined } from '../records/fields.ts';

/** Throws INVALID_PARAMETER with violations, and NOT_SUPPORTED_BY_ENGINE. `engine` decides which keys and names are supported. */
export function tableSpec(body: DefinitionBody, engine: Engine): TableSpec {
  const violations: Violation[] = [];
  const columns = body.columns.map((column, i) => columnSpec(column, `/columns/${i}`, violations));
  const spec: TableSpec = {
    columns,
    primaryKey: body.primaryKey ?? [],
    uniqueKey: body.unique_key_constraints ?? [],
    orderBy: body.orderBy ?? [],
    partitionBy: body.partitionBy ?? [],
    distribution: { by: body.distribution?.by ?? [], buckets: body.distribution?.buckets ?? 1 },
    replicationNum: body.replicationNum ?? 1,
  };
  requireKeys(spec, engine);
  const checked = { ...spec, columns: withKeysNotNull(columns, spec.primaryKey) };
  requireNoViolations([...violations, ...definitionViolations(checked, engine)]);
  return checked;
}

/** Throws NOT_SUPPORTED_BY_ENGINE for a table with a key on an engine that does not enforce keys. */
export function requireKeys({ primaryKey, uniqueKey }: Pick<TableSpec, 'primaryKey' | 'uniqueKey'>, engine: Engine) {
  if (primaryKey.length > 0 || uniqueKey.length > 0) requireCapability(engine, 'enforcedKeys');
}

/** Converts a requested column to its spec; appends errors to `violations`. */
export function columnSpec(body: ColumnBody, pointer: string, violations: Violation[]): ColumnSpec {
  let type: LogicalType = { kind: 'STRING' };
  try {
    type = parseType(body.type);
  } catch (error) {
    if (!(error instanceof TypeSyntaxError)) throw error;
    violations.push({ pointer: `${pointer}/type`, rule: 'type', message: error.message });
  }
  return defined({
    name: body.name,
    type,
    nullable: body.nullable ?? true,
    defaultValue: body.defaultValue === undefined || body.defaultValue === null ? undefined : String(body.defaultValue),
    comment: body.comment ?? undefined,
  });
}

/** Key columns are never nullable, whatever the request says. */
export function withKeysNotNull(columns: readonly ColumnSpec[], primaryKey: readonly string[]): ColumnSpec[] {
  return columns.map((column) =>
    primaryKey.includes(column.name) && column.nullable ? { ...column, nullable: false } : column,
  );
}

/** All errors of a definition. */
export function definitionViolations(spec: TableSpec, engine: Engine): Violation[] {
  const found: Violation[] = [];
  const { columnsMax } = engine.limits;
  if (spec.columns.length === 0)
    found.push({ pointer: '/columns', rule: 'minItems', message: 'a table has at least one column' });
  if (spec.columns.length > columnsMax) {
    return [{ pointer: '/columns', rule: 'maxItems', message: `a table has at most ${columnsMax} columns` }];
  }
  const byName = new Map<string, ColumnSpec>();
  const folded = new Set<string>();
  spec.columns.forEach((column, i) => {
    const pointer = `/columns/${i}/name`;
    const fault = nameFault(column.name) ?? engine.reservedName('columns', column.name);
    if (fault !== undefined) found.push({ pointer, rule: 'name', message: fault });
    if (folded.has(foldName(column.name)))
      found.push({
        pointer,
        rule: 'unique',
        message: `the column ${JSON.stringify(column.name)} is repeated (names are case-insensitive)`,
      });
    folded.add(foldName(column.name));
    byName.set(column.name, column);
  });
  const checkReferences = (pointer: string, names: readonly string[], key: boolean) => {
    names.forEach((name, i) => {
      const column = byName.get(name);
      const columnPointer = `${pointer}/${i}`;
      if (!column)
        found.push({
          pointer: columnPointer,
          rule: 'column',
          message: `is not a column of the table: ${JSON.stringify(name)}`,
        });
      else if (key && !engine.keyable(column.type))
        found.push({
          pointer: columnPointer,
          rule: 'keyType',
          message: `${formatType(column.type)} cannot be in a key`,
        });
      if (names.indexOf(name) !== i)
        found.push({ pointer: columnPointer, rule: 'unique', message: `${JSON.stringify(name)} is repeated` });
    });
  };
  checkReferences('/primaryKey', spec.primaryKey, true);
  checkReferences('/unique_key_constraints', spec.uniqueKey, true);
  checkReferences('/orderBy', spec.orderBy, false);
  checkReferences('/partitionBy', spec.partitionBy, false);
  checkReferences('/distribution/by', spec.distribution.by, false);
  return found;
}

export function requireNoViolations(violations: readonly Violation[]): void {
  const [first] = violations;
  if (first) throw violationsFailure('INVALID_PARAMETER', `${first.pointer}: ${first.message}`, violations);
}

/** The engine binds each new default in the way in which an insert binds it. Throws INVALID_PARAMETER with the column. */
export async function checkDefaults(
  columns: readonly ColumnDefinition[],
  previousColumns: readonly ColumnDefinition[],
  engine: EngineWarehouse,
): Promise<void> {
  const before = new Map(previousColumns.map((column) => [column.name, column]));
  for (const [i, column] of columns.entries()) {
    const { defaultValue, type, name } = column;
    const previous = before.get(name);
    if (
      defaultValue === undefined ||
      (previous?.defaultValue === defaultValue && formatType(previous.type) === formatType(type))
    )
      continue;
    try {
      await engine.checkDefault(defaultValue, type);
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'INVALID_PARAMETER') throw error;
      throw new Failure('INVALID_PARAMETER', `the default of ${JSON.stringify(name)}: ${error.message}`, {
        violations: [{ pointer: `/columns/${i}/defaultValue`, rule: 'default', message: error.message }],
      });
    }
  }
}

/** The part of a definition that concerns the engine: if it differs, the tables in the engine differ. */
export function definitionOf(spec: TableDefinition): TableDefinition {
  return {
    columns: spec.columns.map(({ name, type, nullable: mayBeNull, defaultValue }) =>
      defined({ name, type, nullable: mayBeNull, defaultValue }),
    ),
    primaryKey: spec.primaryKey,
    uniqueKey: spec.uniqueKey,
    orderBy: spec.orderBy,
    partitionBy: spec.partitionBy,
    distribution: spec.distribution,
    replicationNum: spec.replicationNum,
  };
}

/** The fields of the definition that refer to a column: `primaryKey`, `orderBy` and others. */
export function usesOf(name: string, spec: TableSpec): string[] {
  const uses: [string, readonly string[]][] = [
    ['primaryKey', spec.primaryKey],
    ['unique_key_constraints', spec.uniqueKey],
    ['orderBy', spec.orderBy],
    ['partitionBy', spec.partitionBy],
    ['distribution.by', spec.distribution.by],
  ];
  return uses.filter(([, names]) => names.includes(name)).map(([use]) => use);
}

/** The spec with a column renamed in all references. */
export function withColumnRenamed(spec: TableSpec, from: string, to: string): TableSpec {
  const name = (column: string) => (column === from ? to : column);
  return {
    ...spec,
    columns: spec.columns.map((column) => (column.name === from ? { ...column, name: to } : column)),
    primaryKey: spec.primaryKey.map(name),
    uniqueKey: spec.uniqueKey.map(name),
    orderBy: spec.orderBy.map(name),
    partitionBy: spec.partitionBy.map(name),
    distribution: { ...spec.distribution, by: spec.distribution.by.map(name) },
  };
}

/** Converts a definition to the body that would create it, for `copy_definition`. */
export function bodyOf(spec: TableSpec) {
  return {
    columns: spec.columns.map(columnBodyOf),
    ...keysAndLayoutOf(spec),
  };
}

/** The body that would create a column. */
export const columnBodyOf = ({ name, type, nullable, defaultValue, comment }: ColumnSpec) => ({
  name,
  type: formatType(type),
  nullable,
  ...defined({ defaultValue, comment }),
});

/** As bodies and records have them. */
export const keysAndLayoutOf = (spec: TableSpec) => ({
  primaryKey: spec.primaryKey,
  unique_key_constraints: spec.uniqueKey,
  orderBy: spec.orderBy,
  partitionBy: spec.partitionBy,
  distribution: spec.distribution,
  replicationNum: spec.replicationNum,
});
