// The only tests that a run in CI may skip: they need a cluster of the user's own, which a variable of the environment names; scripts/test.ts
// fails in CI for any other skip.

/** What the tests need, by the variable that names it. */
const needs = {
  CLICKHOUSE_TEST_URLS: "needs a ClickHouse cluster of the user's own: CLICKHOUSE_TEST_URLS names no servers",
} as const;
type Variable = keyof typeof needs;

interface SkippedTest {
  /** Relative to the root of the project. */
  readonly file: string;
  /** Of a test, or of a suite for all tests in it. */
  readonly name: string;
  readonly needs: Variable;
}

export const skippedInCi: readonly SkippedTest[] = [
  {
    file: 'tests/engines/clickhouse/given_cluster/suites.test.ts',
    name: 'the suites of the engine port on a given cluster',
    needs: 'CLICKHOUSE_TEST_URLS',
  },
  {
    file: 'tests/engines/clickhouse/given_cluster/catalog.test.ts',
    name: 'a catalog on a given cluster',
    needs: 'CLICKHOUSE_TEST_URLS',
  },
];

/** Why tests that need this variable are skipped; false if it is set. */
export const skippedFor = (variable: Variable): string | false => !process.env[variable] && needs[variable];

/** Whether the test, or the suite, may be skipped in CI. `file`: relative to the root of the project. */
export const maySkipInCi = (skip: { readonly file: string; readonly name: string; readonly reason: string }): boolean =>
  skippedInCi.some(({ file, name, needs: variable }) => {
    return file === skip.file && name === skip.name && needs[variable] === skip.reason;
  });
