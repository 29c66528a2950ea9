// The engine on which the suites of the port run (tests/conformance/engine/): DuckDB, with the time limit of tests for an analysis.
import { duckdbWith } from '../../src/engines/duckdb/duckdb.ts';
import { Confinement } from '../../src/engines/duckdb/sandbox/sandbox.ts';
import { analysisTimeoutMs } from '../deadline.ts';

export const testEngine = duckdbWith({ confinement: new Confinement('auto'), analysisTimeoutMs });
