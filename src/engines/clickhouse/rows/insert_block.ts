// One INSERT of rows into a table, which the servers apply once however often it is sent.
import { setTimeout as pause } from 'node:timers/promises';
import { Failure, outcomeOf, withOutcome } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import type { InsertStep } from '../../port/rows.ts';
import { ClickHouseError, serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { writeSettings } from '../query/statement_settings.ts';
import type { ReplicatedBatch } from '../replication/replicated_inserts.ts';
import { takeRows } from '../replication/take_over.ts';
import { qualifiedName, quoteIdentifier } from '../sql/identifiers.ts';
import { WriteEnded } from '../steps/ended_write.ts';
import { doesNotFit } from '../types/checked_conversion.ts';
import { blockSettings } from './block_settings.ts';

/** Who else may insert the rows: whoever finds the record of these steps. */
export interface BlockRecord {
  readonly catalog: CatalogRef;
  readonly steps: readonly InsertStep[];
}

/** `names`: of the table; its Distributed table takes the rows. `token`: the same for each attempt to insert these rows. */
export type RowsBlock = Omit<ReplicatedBatch, 'batchColumn' | 'data'> & { readonly data: Uint8Array };

/** For another replica to take over what is to be acknowledged; a later one does not count. */
const takeOverSeconds = 2;
/** For the session of a server with Keeper to begin anew, or enough replicas to return. Who waits for longer may ask again. */
const repeatMs = 15_000;
const attemptsMax = 3;
const pauseMs = 200;
const thrownCode = 395;
const overflowCode = 70;
/** A row that a constraint of the table, a column without nulls or a conversion refuses. */
const violationCodes: readonly number[] = [overflowCode, 349, thrownCode, 469];

/**
 * Sends the rows again where a server was lost or cannot say whether it stored them, unless another process has completed what is recorded.
 * Throws CONSTRAINT_VIOLATED if no shard has any of them, WriteEnded if one refuses its rows when others may have theirs, and 503 with the outcome `unknown` if the rows of some shards may be stored.
 */
export async function insertBlock(context: WarehouseContext, block: RowsBlock, record?: BlockRecord): Promise<void> {
  const isCompleted = async () =>
    record !== undefined && (await context.steps.areApplied(record.catalog, record.steps));
  const insert = context.cluster.isReplicated ? insertReplicated : insertUnreplicated;
  try {
    await insert(context, block, isCompleted);
  } catch (error) {
    if (isRefusedByShard(error, context, block)) throw refusedInPart(error, block.token);
    throw toViolation(serverFailure(error), 'nothing was inserted');
  }
}

/**
 * Before any row is sent to a shard, all are checked by the Distributed table, which has the same columns and constraints. If the table of a
 * shard has others, while it is altered, it refuses its rows after other shards have stored theirs.
 */
const isRefusedByShard = (error: unknown, { cluster }: WarehouseContext, { names }: RowsBlock): boolean =>
  error instanceof ClickHouseError &&
  cluster.writesMany &&
  violationCodes.includes(error.code) &&
  error.message.includes(names.localTable);

/** Who repeats the insert tries again: no shard stores the same rows twice. */
function refusedInPart(cause: unknown, batch: string): WriteEnded {
  const message = 'a server of the warehouse refused rows of the insert; others may have stored theirs';
  const failure = new Failure('WAREHOUSE_FAILED', message, {}, { cause, outcome: 'unknown' });
  return new WriteEnded(failure, { state: 'refused', batch });
}

type IsCompleted = () => Promise<boolean>;

async function insertReplicated(
  { cluster, inserts, spec }: WarehouseContext,
  block: RowsBlock,
  isCompleted: IsCompleted,
): Promise<void> {
  const { replicasOfShard } = cluster;
  const timeoutMs = spec.statementTimeoutSeconds * 1000;
  const servers = cluster.availableServers();
  const settingsOn = (server: ClickHouseServer) => writeSettings(cluster, server);
  const options = { servers, replicasOfShard, timeoutMs, repeatMs, isCompleted, settingsOn };
  const from = await inserts.insert(block, options);
  const { database, localTable: table } = block.names;
  // Whoever has completed it has also seen to it that the replicas that are read have the rows.
  if (from && replicasOfShard > 1)
    await cluster.takeOver((server) => takeRows(server, { database, table }, takeOverSeconds), { from });
}

async function insertUnreplicated(
  context: WarehouseContext,
  block: RowsBlock,
  isCompleted: IsCompleted,
): Promise<void> {
  // Other servers write to one that is disabled, which may be down.
  context.cluster.requireAllCopies();
  const names = block.columns.map(quoteIdentifier).join(', ');
  const sql = `INSERT INTO ${qualifiedName(block.names)} (${names}) ${block.reading ?? ''} FORMAT ${block.format}`;
  const settings = blockSettings(block.token);
  const timeoutMs = context.spec.statementTimeoutSeconds * 1000;
  let lost: unknown;
  for (let attempt = 1; ; attempt++) {
    try {
      // The token of rows that were deleted since then is forgotten.
      if (attempt > 1 && (await isCompleted())) return;
      await context.cluster.onAny((server) => server.text({ sql, data: block.data, settings, timeoutMs }));
      return;
    } catch (error) {
      const failure = attempt === 1 ? serverFailure(error) : withOutcome(serverFailure(error), 'unknown');
      // That a repetition is refused, after an ALTER for example, says nothing about the attempt that was lost.
      if (!isWorthRepeating(failure)) throw isRefusedByShard(error, context, block) ? failure : (lost ?? failure);
      if (attempt === attemptsMax) throw failure;
      lost = failure;
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
