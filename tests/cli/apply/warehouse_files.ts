// Files that declare 3 databases with 30 tables, views, roles, grants and schedules, as they were first and after a change of everything
// that can change.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const databases = ['sales', 'stock', 'staff'];
const tablesOfEach = 10;
/** The table that has enough rows for a change of it to be a task. */
export const largeTable = { database: 'sales', table: 't0', rows: 120_000 };

function tableText(database: string, i: number, isChanged: boolean): string {
  const isWide = isChanged && database === largeTable.database && i === 0;
  const isRenamed = isChanged && i === 3;
  const isColumnRenamed = isChanged && i === 4;
  const isColumnDropped = isChanged && i === 5;
  return `kind: table
database: ${database === 'staff' && isChanged ? 'people' : database}
name: ${isRenamed ? `renamed${i}` : `t${i}`}${isRenamed ? `\nrenamedFrom: t${i}` : ''}
comment: ${isChanged && i === 6 ? 'changed' : 'first'}
columns:
  - { name: id, type: BIGINT }
  - { name: amount, type: "${isWide ? 'DECIMAL(18,2)' : 'decimal(10, 2)'}" }
  - { name: ${isColumnRenamed ? 'remark, renamedFrom: note' : 'note'}, type: VARCHAR(40), defaultValue: "'none'" }
${isColumnDropped ? '' : '  - { name: at, type: DATETIME, nullable: false, defaultValue: current_timestamp }\n'}${
  isChanged && i === 7 ? '  - { name: extra, type: "ARRAY<INT>" }\n' : ''
}primaryKey: [id]
`;
}

/** Half of the tables of each database are declared in SQL. */
const isSql = (i: number): boolean => i >= tablesOfEach - 2;

/** `isChanged`: the second version. Replaces the directory. */
export function writeWarehouse(directory: string, isChanged: boolean): void {
  rmSync(directory, { recursive: true, force: true });
  for (const database of databases) {
    const name = database === 'staff' && isChanged ? 'people' : database;
    const own = join(directory, database);
    mkdirSync(own, { recursive: true });
    const renamed = name === database ? '' : `renamedFrom: ${database}\n`;
    writeFileSync(
      join(own, 'database.yaml'),
      `kind: database\nname: ${name}\n${renamed}comment: ${isChanged ? 'changed' : 'first'}\n`,
    );
    const indexes = Array.from({ length: tablesOfEach }, (_, i) => i).filter((i) => !isChanged || i !== 2);
    writeFileSync(
      join(own, 'tables.yaml'),
      indexes
        .filter((i) => !isSql(i))
        .map((i) => tableText(database, i, isChanged))
        .join('---\n'),
    );
    const statements = indexes
      .filter(isSql)
      .map(
        (i) =>
          `CREATE TABLE IF NOT EXISTS ${name}.t${i} (id BIGINT PRIMARY KEY, "a b" VARCHAR(9) NOT NULL DEFAULT 'x;y');`,
      );
    const where = isChanged ? ' WHERE id > 7' : '';
    statements.push(
      `USE ${name};`,
      'CREATE VIEW above AS SELECT id, amount FROM below;',
      `CREATE OR REPLACE VIEW below AS SELECT id, amount FROM t0${where}; -- read by another view`,
      `CREATE VIEW ${name}.of_renamed AS SELECT id, ${isChanged ? 'remark AS note' : 'note'} FROM t4;`,
    );
    writeFileSync(join(own, 'definitions.sql'), `${statements.join('\n')}\n`);
  }
  writeFileSync(join(directory, 'access.yaml'), accessText(isChanged));
}

function accessText(isChanged: boolean): string {
  const people = isChanged ? 'people' : 'staff';
  const grants = [
    ['readers', 'read', '/api/v2/databases/sales'],
    ['readers', 'read', '/api/v2/databases/stock'],
    ['readers', 'read', `/api/v2/databases/${people}/views/of_renamed`],
    ...(isChanged ? [] : [['writers', 'write', '/api/v2/databases/sales/tables/t1']]),
    ['writers', isChanged ? 'alter' : 'write', '/api/v2/databases/stock'],
  ];
  const documents = [
    `kind: role\nname: readers\ncomment: ${isChanged ? 'changed' : 'first'}\nmembers: [${isChanged ? 'root, ann' : 'ann'}]\n`,
    `kind: role\nname: ${isChanged ? 'editors\nrenamedFrom: writers' : 'writers'}\nproperties: { team: ${isChanged ? 'b' : 'a, gone: x'} }\n`,
    ...grants.map(
      ([role, privilege, on]) =>
        `kind: grant\nrole: ${isChanged && role === 'writers' ? 'editors' : role}\nprivilege: ${privilege}\non: ${on}\n`,
    ),
    'kind: grant\nuser: ann\nprivilege: use\non: /api/v2/warehouses/default\n',
    `kind: schedule\nname: nightly\ncron: "${isChanged ? '15' : '30'} 2 * * *"\nquery: { sql: "SELECT count(*) FROM t0", database: ${people} }\n`,
    `kind: schedule\nname: tidy\ncron: "@weekly"\nrequest: { on: /api/v2/databases/sales/tables/t0, action: optimize }\npriority: ${isChanged ? 'high' : 'low'}\n`,
  ];
  return documents.join('---\n');
}
