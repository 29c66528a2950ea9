// The questions about who may do what: statements over tables, requests on objects. Each declares what it requires; the model
// (grants_model.ts) decides whether a user has that.
import fc from 'fast-check';

/** `#0`, `#1`, `#2` are tables; `reads` and `writes` say which. None changes anything but rows that do not matter. */
export interface StatementForm {
  readonly sql: string;
  readonly reads: readonly number[];
  readonly writes: readonly number[];
}

const form = (sql: string, reads: readonly number[], writes: readonly number[] = []): StatementForm => ({
  sql,
  reads,
  writes,
});

export const statementForms: readonly StatementForm[] = [
  form('SELECT 1', []),
  form('SELECT * FROM #0', [0]),
  form('SELECT count(*) FROM #0 AS a JOIN #1 AS b USING (id)', [0, 1]),
  form('SELECT a.id FROM #0 AS a, #1 AS b, #2 AS c', [0, 1, 2]),
  form('SELECT (SELECT max(k) FROM #1) FROM #0', [0, 1]),
  form('SELECT id FROM #0 WHERE id IN (SELECT id FROM #1) ORDER BY (SELECT min(k) FROM #2)', [0, 1, 2]),
  form('WITH q AS (SELECT id FROM #0), r AS (SELECT * FROM q, #1) SELECT * FROM r', [0, 1]),
  form('SELECT id FROM #0 UNION ALL SELECT id FROM #1 EXCEPT SELECT id FROM #2', [0, 1, 2]),
  form('SELECT NULL + (SELECT max(k) FROM #0)', [0]),
  form('SELECT typeof((SELECT k FROM #1)) FROM #0', [0, 1]),
  form('WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r, #0 WHERE n < 2) SELECT * FROM r', [0]),
  form('SELECT * FROM #0 LIMIT (SELECT count(*) FROM #1)', [0, 1]),
  form('INSERT INTO #0 VALUES (1, 2)', [], [0]),
  form('INSERT INTO #0 VALUES (1, 2) RETURNING id', [], [0]),
  form('INSERT INTO #0 SELECT id, k FROM #1 WHERE false', [1], [0]),
  form('INSERT INTO #0 SELECT id, k FROM #1 WHERE id < 0 AND k IN (SELECT k FROM #2)', [1, 2], [0]),
  form('WITH q AS (SELECT * FROM #1 WHERE false) INSERT INTO #0 SELECT id, k FROM q', [1], [0]),
  form('UPDATE #0 SET k = 1 WHERE false', [0], [0]),
  form('UPDATE #0 SET k = s.k FROM #1 AS s WHERE s.id < 0', [0, 1], [0]),
  form('UPDATE #0 SET k = NULL + (SELECT max(k) FROM #1) WHERE false', [0, 1], [0]),
  form('DELETE FROM #0 WHERE id < 0', [0], [0]),
  form('DELETE FROM #0 USING #1 AS s WHERE s.id < 0', [0, 1], [0]),
  form(
    'MERGE INTO #0 AS t USING #1 AS s ON t.id = s.id AND s.id < 0 WHEN MATCHED THEN UPDATE SET k = s.k',
    [0, 1],
    [0],
  ),
  form('MERGE INTO #0 AS t USING (SELECT 1 AS id) AS s ON t.id = -1 WHEN MATCHED THEN DELETE', [0], [0]),
];

export const privileges = ['read', 'write', 'alter', 'create', 'drop', 'use', 'operate', 'grant', 'own'] as const;
/** Some are granted more often, so that much is allowed. */
export const grantedPrivileges = ['read', 'write', 'own', 'use', 'read', 'write', 'read', ...privileges] as const;
export const marks = ['/', '/catalogs', '/warehouses', '/users', '/roles', '/tasks'] as const;

/** Numbers: indexes into the existing objects, modulo their number. */
const pickIndex = fc.nat({ max: 255 });

const question = fc.record({
  ask: fc.oneof(
    { weight: 4, arbitrary: fc.constant('sql' as const) },
    {
      weight: 8,
      arbitrary: fc.constantFrom(
        'get',
        'list',
        'patch',
        'missing',
        'check',
        'effective',
        'rows',
        'insert',
        'truncate',
        'resume',
      ),
    },
  ),
  who: pickIndex,
  what: pickIndex,
  form: pickIndex,
  tables: fc.tuple(pickIndex, pickIndex, pickIndex),
  short: fc.boolean(),
});
export type Question = typeof question extends fc.Arbitrary<infer T> ? T : never;

const step = fc.record({
  do: fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom('grant' as const) },
    { weight: 4, arbitrary: fc.constantFrom('table', 'database', 'user', 'join', 'token') },
    {
      weight: 2,
      arbitrary: fc.constantFrom(
        'catalog',
        'role',
        'leave',
        'revoke',
        'drop',
        'rename',
        'give',
        'disable',
        'enable',
        'token',
        'untoken',
      ),
    },
  ),
  /** Root, unless it is a user of `who`. */
  byOther: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 2, arbitrary: fc.constant(true) }),
  who: pickIndex,
  what: pickIndex,
  other: pickIndex,
  privilege: pickIndex,
  questions: fc.array(question, { maxLength: 8 }),
});
type DrawnStep = typeof step extends fc.Arbitrary<infer T> ? T : never;
export type Step = Omit<DrawnStep, 'do'> & { readonly do: DrawnStep['do'] | 'use' };

/** The beginning of each run, so that there is something to ask about: users in a role, who may use the warehouse, tables. */
const beginning: readonly Partial<Step>[] = [
  { do: 'user' },
  { do: 'user' },
  { do: 'role' },
  { do: 'catalog' },
  { do: 'database', what: 0 },
  { do: 'database', what: 1 },
  { do: 'table', what: 0 },
  { do: 'table', what: 0 },
  { do: 'table', what: 1 },
  { do: 'join', what: 0, other: 1 },
  { do: 'use', other: 0 },
  { do: 'use', other: 2 },
];
const first: Step = { do: 'user', byOther: false, who: 0, what: 0, other: 0, privilege: 0, questions: [] };

export const stepSequences = (stepsMax: number) =>
  fc
    .array(step, { minLength: 1, maxLength: stepsMax, size: 'max' })
    .map((steps) => [...beginning.map((step): Step => ({ ...first, ...step })), ...steps]);
