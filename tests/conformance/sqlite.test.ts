// The suites of the engine port on the second engine, which is only for tests (tests/engines/sqlite/).
import { suitesOnEngine } from '../engines/engine_under_test.ts';

suitesOnEngine(
  'sqlite',
  ['changes', 'statements', 'rows_together', 'load', 'checksums'].map(
    (name) => new URL(`engine/${name}.test.ts`, import.meta.url),
  ),
);
