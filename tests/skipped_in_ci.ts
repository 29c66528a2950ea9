// The only tests that a run in CI may skip: they need a cluster of the user's own, or software that no package manager installs. Each needs one
// variable of the environment; scripts/test.ts fails in CI for any other skip.

/** What the tests need, by the variable that names it. */
const needs = {
  CLICKHOUSE_TEST_URLS: "needs a ClickHouse cluster of the user's own: CLICKHOUSE_TEST_URLS names no servers",
  CLICKHOUSE_SERVER_LIBRARY: 'needs a library with the server of ClickHouse 24.8: CLICKHOUSE_SERVER_LIBRARY names none',
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
  {
    file: 'tests/engines/clickhouse/replicated_ring/oldest_version.test.ts',
    name: 'a cluster of 24.8 that replicates',
    needs: 'CLICKHOUSE_SERVER_LIBRARY',
  },
];

/** Why tests that need this variable are skipped; false if it is set. */
export const skippedFor = (variable: Variable): string | false => !process.env[variable] && needs[variable];

/** Whether the test, or the suite, may be skipped in CI. `file`: relative to the root of the project. */
export const maySkipInCi = (skip: { readonly file: string; readonly name: string; readonly reason: string }): boolean =>
  skippedInCi.some(({ file, name, needs: variable }) => {
    return file === skip.file && name === skip.name && needs[variable] === skip.reason;
  });
