// What the responses of the catalog depend on in an engine.
import { clickhouseWith } from '../../../src/engines/clickhouse/clickhouse.ts';
import { duckdbEngine } from '../../../src/engines/duckdb/duckdb.ts';
import type { Engine } from '../../../src/engines/port/engine.ts';
import { foldName } from '../../../src/model/names.ts';

export interface ModelledEngine extends Pick<Engine, 'reservedName' | 'capabilities'> {
  /** The same for names that a statement does not distinguish. */
  readonly foldInSql: (name: string) => string;
  /** Whether a statement can contain the name. */
  readonly isInSql: (name: string) => boolean;
  /** The type of `count(*)`. */
  readonly countType: string;
}

export const duckdb: ModelledEngine = {
  ...duckdbEngine,
  // Only ASCII letters.
  foldInSql: (name) => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase()),
  // A NUL is refused in any SQL before it is read.
  isInSql: (name) => !/\p{Cc}/u.test(name),
  countType: 'BIGINT',
};

export const clickhouse: ModelledEngine = {
  ...clickhouseWith(),
  foldInSql: foldName,
  isInSql: (name) => !/[\p{Cc}\\]/u.test(name),
  countType: 'LARGEINT',
};
