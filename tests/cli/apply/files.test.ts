// The files of `apply`: what they can say, and wrong ones, which are reported with file, line and column before anything is sent.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { titleOf } from '../../../src/cli/apply/files/declaration.ts';
import { readDeclarations } from '../../../src/cli/apply/files/declarations.ts';
import { readSources } from '../../../src/cli/apply/files/find_files.ts';
import { CommandError } from '../../../src/cli/remote/exit_codes.ts';
import { newCommandLine } from '../remote/command_process.ts';

const root = mkdtempSync(join(tmpdir(), 'tabularium-apply-'));
after(() => rmSync(root, { recursive: true, force: true }));
let directory = '';
let count = 0;
beforeEach(() => {
  directory = join(root, String(count++));
  mkdirSync(directory);
});

const write = (files: Readonly<Record<string, string | Buffer>>): void => {
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
};
const read = () => readDeclarations(readSources(directory));

/** The lines of the message, without the directory. */
function errorsOf(): string[] {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof CommandError, String(error));
    assert.equal(error.exitCode, 2);
    return error.message.replaceAll(`${directory}/`, '').replaceAll(directory, '.').split('\n');
  }
  assert.fail('the files were accepted');
}

const end = 'nothing was changed; correct the files and run the command again';

test('documents and statements become declarations, views in the order in which they read each other', () => {
  write({
    'b.yaml': `# comment
kind: view
database: shop
name: top
sql: SELECT * FROM middle JOIN lake.shop.other USING (id)
---
kind: catalog
name: lake
---
kind: table
catalog: lake
database: shop
name: "a.b"
columns: [{ name: new, renamedFrom: old, type: INT }]
---
kind: grant
user: ann
privilege: read
on: /api/v2/databases/my shop
---
`,
    'a.sql': `-- CREATE TABLE commented (id INT);
create database IF NOT EXISTS "my shop";
USE shop;
CREATE OR REPLACE VIEW middle AS WITH top AS (SELECT 1 AS id) SELECT * FROM "bottom", top; /* ; */
create view Bottom as select ';' as text;
USE lake."shop";
CREATE TABLE t (id INT, "semi;colon" INT DEFAULT 1);
CREATE TABLE other.u (id INT);
CREATE TABLE lake.third.w (id INT)`,
  });
  const declarations = read();
  assert.deepEqual(declarations.map(titleOf), [
    'catalog lake',
    'database default."my shop"',
    'table lake.shop.t',
    'table lake.other.u',
    'table lake.third.w',
    'table lake.shop."a.b"',
    'view default.shop.Bottom',
    'view default.shop.middle',
    'view default.shop.top',
    'grant read on /api/v2/catalogs/default/databases/my%20shop to user ann',
  ]);
  const [, , t] = declarations;
  assert.deepEqual(t?.fields, { sql: 'CREATE TABLE "t" (id INT, "semi;colon" INT DEFAULT 1)' });
  assert.deepEqual(t?.place, { file: join(directory, 'a.sql'), line: 7, column: 1 });
  const columns = declarations.find(({ path }) => path.at(-1) === 'a.b');
  assert.deepEqual(
    [columns?.fields.columns, columns?.renamedColumns],
    [[{ name: 'new', type: 'INT' }], { old: 'new' }],
  );
});

test('wrong fields, kinds, types and values are reported together, with the nearest name', () => {
  write({
    'a.yaml': `kind: tabel
name: x
---
kind: table
database: shop
name: orders
colums: []
columns:
  - { name: id, typ: INT }
  - name: total
    type: DECIMAL(99,2)
---
name: none
---
kind: grant
privilege: raed
role: r
on: /api/v2
---
kind: grant
privilege: read
on: /api/v2
---
- a list
---
kind: schedule
name: s
cron: 5
query: { sql: SELECT 1, databse: d }
---
kind: table
database: shop
name: empty
---
kind: role
name: ".."
members: ann
`,
  });
  assert.deepEqual(errorsOf(), [
    'a.yaml:1:1: there is no kind "tabel"; did you mean "table"?',
    'a.yaml:7:1: "colums" is not a field of a table; did you mean "columns"?',
    'a.yaml:9:5: "columns.0.type" is required',
    'a.yaml:9:17: "typ" is not a field of a column; did you mean "type"?',
    'a.yaml:13:1: the document has no kind; it can be: catalog, database, table, view, role, grant, schedule',
    'a.yaml:16:1: "privilege" must be one of read, write, alter, create, drop, use, operate, grant, own',
    'a.yaml:20:1: a grant needs one of role, user',
    'a.yaml:24:1: a document must be one object with a kind, such as `kind: table`',
    'a.yaml:28:1: "cron" must be string',
    'a.yaml:29:25: "query.databse" is not a field of a schedule',
    'a.yaml:31:1: a table has either columns or sql',
    'a.yaml:37:1: "members" must be array',
    end,
  ]);
});

test('wrong types of columns and names are found before anything is sent', () => {
  write({
    'a.yaml':
      'kind: table\ndatabase: d\nname: t\ncolumns:\n  - { name: a, type: INTT }\n  - { name: b, type: "DECIMAL(99,2)" }\n---\nkind: role\nname: ".."\n',
  });
  const errors = errorsOf();
  assert.match(errors[0] ?? '', /^a\.yaml:5:16: .*INTT/);
  assert.match(errors[1] ?? '', /^a\.yaml:6:16: .*DECIMAL/);
  assert.equal(errors[2], 'a.yaml:9:1: a name must not be "." or ".."');
  assert.deepEqual(errors.slice(3), [end]);
});

test('what is not YAML is reported where it breaks', () => {
  write({
    'a.yaml': 'kind: role\nname: [a\n',
    'b.yml': 'kind: role\nname: a\nname: b\n',
    'c.yaml': 'kind: role\nname: *none\n',
  });
  const errors = errorsOf();
  assert.match(errors[0] ?? '', /^a\.yaml:\d:\d: this is not valid YAML: /);
  assert.match(errors[1] ?? '', /^b\.yml:3:1: this is not valid YAML: Map keys must be unique/);
  assert.match(errors[2] ?? '', /^c\.yaml:\d:\d: this is not valid YAML: Unresolved alias/);
});

test('an alias cannot make a small file large', () => {
  const levels = Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(', ')}]`);
  write({ 'a.yaml': `kind: role\nname: a\nl0: &l0 [x]\n${levels.join('\n')}\n` });
  assert.match(errorsOf()[0] ?? '', /^a\.yaml:1:1: this is not valid YAML: Excessive alias count/);
});

test('statements that declare nothing, and names without a database, are reported', () => {
  write({
    'a.sql': `CREATE TABLE lonely (id INT);
DROP TABLE x;
CREATE DATABASE d COMMENT 'x';
CREATE TABLE a.b.c.d (id INT);
SELECT 1`,
  });
  const only =
    'only CREATE CATALOG, DATABASE, TABLE and VIEW, and USE, are declarations; other objects are declared in YAML';
  assert.deepEqual(errorsOf(), [
    'a.sql:1:1: the name must be database.table or catalog.database.table; USE sets the database of the names after it',
    `a.sql:2:1: ${only}`,
    'a.sql:3:1: nothing can follow the name of a database; declare its other fields in YAML',
    'a.sql:4:1: the name must be database.table or catalog.database.table; USE sets the database of the names after it',
    `a.sql:5:1: ${only}`,
    end,
  ]);
});

test('an object that is declared twice is reported with both places', () => {
  write({
    'a.yaml': 'kind: table\ndatabase: shop\nname: orders\ncolumns: [{ name: id, type: INT }]\n',
    'b.sql': 'CREATE VIEW shop.Orders AS SELECT 1;\n',
    'c.yaml':
      'kind: grant\nrole: r\nprivilege: read\non: /api/v2/databases/shop\n---\nkind: grant\nrole: r\nprivilege: read\non: /api/v2/catalogs/default/databases/shop\n',
  });
  const errors = errorsOf();
  assert.equal(
    errors[0],
    'b.sql:1:1: view default.shop.Orders is declared before, as table default.shop.orders at a.yaml:1:1',
  );
  assert.match(errors[1] ?? '', /^c\.yaml:6:1: grant read on .* is declared before, as .* at c\.yaml:1:1$/);
});

test('views that read each other in a circle are reported', () => {
  write({
    'a.sql':
      'USE d; CREATE VIEW a AS SELECT * FROM b;\nCREATE VIEW b AS SELECT * FROM c;\nCREATE VIEW c AS SELECT (SELECT max(x) FROM d.a);',
  });
  assert.deepEqual(errorsOf(), ['a.sql:1:8: these views read each other in a circle: d.a → d.b → d.c → d.a', end]);
});

test('files that cannot be read as text, and directories without an end, are refused', () => {
  write({ 'a.yaml': Buffer.from([0x6b, 0xff, 0x00, 0x01]) });
  assert.deepEqual(errorsOf(), ['a.yaml is not a text in UTF-8: convert it']);
  write({ 'a.yaml': 'kind: role\0' });
  assert.deepEqual(errorsOf(), ['a.yaml is not a text in UTF-8: convert it']);
  write({ 'a.yaml': `kind: role\nname: a\ncomment: ${'x'.repeat(10_000_000)}\n` });
  assert.deepEqual(errorsOf(), ['a.yaml has 10000029 bytes; a file can have at most 4194304: split it']);
  rmSync(join(directory, 'a.yaml'));
  assert.deepEqual(errorsOf(), ['. has no .yaml, .yml or .sql file; docs/apply.md describes them']);
  symlinkSync('.', join(directory, 'circle'));
  assert.deepEqual(errorsOf(), ['circle is a symbolic link to a directory around it; remove the link']);
  rmSync(join(directory, 'circle'));
  symlinkSync('self.yaml', join(directory, 'self.yaml'));
  assert.deepEqual(errorsOf(), ['self.yaml cannot be read (its symbolic links form a circle: remove one of them)']);
  rmSync(join(directory, 'self.yaml'));
  write({ 'notes.txt': 'x' });
  assert.throws(() => readSources(join(directory, 'notes.txt')), /is not a \.yaml, \.yml or \.sql file/);
  assert.throws(() => readSources(join(directory, 'gone')), /cannot be read \(it does not exist: check the path/);
});

test('hidden files are left alone, and directories below are read', () => {
  mkdirSync(join(directory, '.git'));
  mkdirSync(join(directory, 'below'));
  write({ '.git/a.yaml': 'nonsense', '.hidden.yaml': 'nonsense', 'below/a.yml': 'kind: role\nname: a\n' });
  assert.deepEqual(read().map(titleOf), ['role a']);
});

test('the command sends nothing for a wrong file', async (t) => {
  const line = newCommandLine();
  t.after(() => line.remove());
  write({ 'a.yaml': 'kind: rolle\nname: a\n' });
  const { code, stderr } = await line.run(['apply', directory, '--yes', '--url', 'http://127.0.0.1:9', '--json']);
  assert.equal(code, 2, stderr);
  const { message } = JSON.parse(stderr) as { readonly message: string };
  assert.match(message, /a\.yaml:1:1: there is no kind "rolle"; did you mean "role"\?/);
});
