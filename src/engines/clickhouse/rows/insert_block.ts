// One INSERT of rows into a table, which the servers apply once however often it is sent.
import { setTimeout as pause } from 'node:timers/promises';
import { Failure, outcomeOf, withOutcome } from '../../../standard/failure.ts';
import { ClickHouseError, serverFailure } from '../connection/clickhouse_error.ts';
import type { StoredNames } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { qualifiedName, quoteIdentifier } from '../sql/identifiers.ts';
import { doesNotFit } from '../types/checked_conversion.ts';

export interface RowsBlock {
  readonly names: StoredNames;
  readonly columns: readonly string[];
  /** Of the data. */
  readonly format: string;
  readonly data: Uint8Array;
  /** A SELECT that reads the data, where the table cannot read it as it is. */
  readonly reading?: string | undefined;
  /** The same for each attempt to insert these rows, and for no other rows of the table. */
  readonly token: string;
}

const attemptsMax = 3;
const pauseMs = 200;
/** All rows of a request are one block, which each shard stores whole or not at all. */
const blockRowsMax = 1_000_000_000;
const thrownCode = 395;
const overflowCode = 70;
/** A row that a constraint of the table, a column without nulls or a conversion refuses. */
const violationCodes: readonly number[] = [overflowCode, 349, thrownCode, 469];

/**
 * Sends the rows again where a server was lost or cannot say whether it stored them. Throws CONSTRAINT_VIOLATED, and 503 with the outcome
 * `unknown` if the rows of some shards may be stored.
 */
export async function insertBlock(context: WarehouseContext, block: RowsBlock): Promise<void> {
  const names = block.columns.map(quoteIdentifier).join(', ');
  const sql = `INSERT INTO ${qualifiedName(block.names)} (${names}) ${block.reading ?? ''} FORMAT ${block.format}`;
  const { isReplicated, replicasOfShard } = context.cluster;
  const settings = {
    insert_deduplicate: 1,
    insert_deduplication_token: block.token,
    max_insert_block_size: blockRowsMax,
    min_insert_block_size_rows: blockRowsMax,
    min_insert_block_size_bytes: 0,
    max_partitions_per_insert_block: 0,
    ...(isReplicated && replicasOfShard >= 3 ? { insert_quorum: 2, insert_quorum_parallel: 1 } : {}),
  };
  const timeoutMs = context.spec.statementTimeoutSeconds * 1000;
  for (let attempt = 1; ; attempt++) {
    try {
      await context.cluster.onAny((server) => server.text({ sql, data: block.data, settings, timeoutMs }));
      return;
    } catch (error) {
      const failure = attempt === 1 ? serverFailure(error) : withOutcome(serverFailure(error), 'unknown');
      if (!isWorthRepeating(failure) || attempt === attemptsMax) throw toViolation(failure, 'nothing was inserted');
      await pause(pauseMs * attempt);
    }
  }
}

const isWorthRepeating = (error: unknown): boolean => error instanceof Failure && outcomeOf(error) === 'unknown';

/** CONSTRAINT_VIOLATED if rows do not fit the table; any other error is returned as it is. `end`: of the message. */
export function toViolation(error: unknown, end: string): unknown {
  if (!(error instanceof ClickHouseError) || !violationCodes.includes(error.code)) return error;
  const text = violationText(error);
  return text === undefined ? error : new Failure('CONSTRAINT_VIOLATED', `${text}; ${end}`, {}, { cause: error });
}

/** With the name of the column. Undefined for an error that the statement itself throws. */
function violationText({ message, code }: ClickHouseError): string | undefined {
  const [fit] = new RegExp(`${doesNotFit}".*?"(?=: | in |$)`, 's').exec(message) ?? [];
  if (fit !== undefined) return fit;
  if (code === thrownCode) return undefined;
  const [, kind, column] = /Constraint `(length of|JSON in) ((?:[^`\\]|\\.)+)`/.exec(message) ?? [];
  if (kind === 'length of') return `a value of the column "${column}" is too long`;
  if (kind === 'JSON in') return `a value of the column "${column}" is not JSON`;
  return code === overflowCode ? 'a number does not fit its column' : 'a column that is not nullable has no value';
}
