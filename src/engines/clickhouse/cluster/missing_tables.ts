// A server that lacks a table or a view which is defined is not what it should be: an operator has dropped it there by hand, another server of
// Tabularium has decommissioned the server, or its disk was lost. Its error is about the server, and not about the request.
import { Failure } from '../../../standard/failure.ts';
import { EngineLost } from '../../engine_lost.ts';
import type { DefinedObject, TableName } from '../../port/refs.ts';
import { ClickHouseError, callerMessage } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { namesOf, parsedDatabase, parsedTable } from '../names.ts';
import { isAbsent } from '../replication/server_errors.ts';
import { qualifiedName, quoteLiteral, unquoteIdentifier } from '../sql/identifiers.ts';
import type { Member } from './member.ts';
import { catalogTables, checkSettings } from './server_facts.ts';

export interface ComparisonOptions {
  /** Undefined if the store does not define it under this name now, or if that is being changed. */
  readonly definedObject: (name: TableName) => Promise<DefinedObject | undefined>;
  /** The members that take statements, as of now. */
  readonly available: () => readonly Member[];
  /** Resolves when this server of Tabularium knows which members were disabled. */
  readonly follow: () => Promise<void>;
  /** Takes a member out of use until it was checked. */
  readonly lose: (member: Member, message: string) => void;
}

/** Of a definition that cannot be shown. */
const notShownCode = 390;
const message = 'it lacks tables that are defined';
const lacksTables = 'a server of the warehouse lacks tables that it should have';
const callMs = 5000;
/** More of a text is not searched for names, and no more names are looked up. */
const textCharactersMax = 20_000;
const namesMax = 20;
const part = String.raw`(?:\`(?:[^\`\\]|\\.)*\`|(?<![A-Za-z0-9_%])[A-Za-z0-9_%]+)`;
const qualified = new RegExp(String.raw`(${part})\.(${part})`, 'g');

export class MissingTables {
  readonly #options: ComparisonOptions;
  #isComparing = false;

  constructor(options: ComparisonOptions) {
    this.#options = options;
  }

  /**
   * The failure of an error of a server about a table that it should have; undefined: the error is right. Members that lack the table are taken
   * out of use where another one can give it to them. `sql`: what was sent.
   */
  async failureOf(error: unknown, sql: string): Promise<Failure | undefined> {
    if (!(error instanceof ClickHouseError) || !(isAbsent(error) || error.code === notShownCode)) return undefined;
    for (const name of absentNames(error, sql)) if (await this.#isDefined(name)) return missingFailure(error);
    return undefined;
  }

  /**
   * Finds what servers lack without an error: rows are also read from other replicas. Of members whose tables have other names than those of this one.
   */
  async compareWith({ facts }: Member): Promise<void> {
    const digest = facts?.tablesDigest;
    const isSame = (other: Member) => other.facts === undefined || other.facts.tablesDigest === digest;
    if (this.#isComparing || digest === undefined || this.#options.available().every(isSame)) return;
    this.#isComparing = true;
    try {
      for (const name of await this.#differences()) await this.#isDefined(name);
    } catch {
      // The store or a server does not answer: they are compared again.
    } finally {
      this.#isComparing = false;
    }
  }

  /** The tables and views that some of the available members have, and others have not, or not whole. */
  async #differences(): Promise<readonly TableName[]> {
    const sql = `SELECT database, name FROM system.tables WHERE ${catalogTables}`;
    const call = { sql, timeoutMs: callMs, settings: checkSettings };
    const rows = await Promise.all(
      this.#options.available().map(({ server }) => server.rows<{ database: string; name: string }>(call)),
    );
    const names = new Map<string, TableName>();
    for (const found of Map.groupBy(rows.flat(), ({ database, name }) => JSON.stringify([database, name])).values()) {
      const [{ database, name }] = found as [(typeof found)[0]];
      const parsed = found.length < rows.length && names.size < namesMax ? parsedDatabase(database) : undefined;
      if (parsed) names.set(JSON.stringify([database, parsedTable(name)]), { ...parsed, table: parsedTable(name) });
    }
    return [...names.values()];
  }

  /** Whether a table or view is defined. Members that lack it are taken out of use then. */
  async #isDefined(name: TableName): Promise<boolean> {
    const object = await this.#options.definedObject(name);
    if (!object) return false;
    const found = await this.#tablesOfMembers(object);
    // While the members were asked, it may have been dropped.
    if (!(await this.#options.definedObject(name))) return false;
    await this.lose(found);
    return true;
  }

  /** What each available member has of a table or view. */
  async #tablesOfMembers({ name, isView }: DefinedObject): Promise<readonly MemberTables[]> {
    const { database, table, localTable } = namesOf(name);
    const wanted = isView ? [table] : [table, localTable];
    const sql = `SELECT name FROM system.tables WHERE database = ${quoteLiteral(database)} AND name IN (${wanted.map(quoteLiteral).join(', ')})`;
    const call = { sql, timeoutMs: callMs, settings: checkSettings };
    const found = await Promise.all(
      this.#options.available().map(async (member): Promise<MemberTables | undefined> => {
        const rows = await member.server.rows<{ name: string }>(call).catch(() => undefined);
        if (!rows) return undefined;
        const present = new Set(rows.map((row) => row.name));
        return {
          member,
          hasAll: wanted.every((each) => present.has(each)),
          hasRows: isView || present.has(localTable),
        };
      }),
    );
    return found.filter((each) => each !== undefined);
  }

  /**
   * Takes members out of use that lack a table which another one can give to them: rows come from another replica of the shard, everything else
   * from any other member.
   */
  async lose(found: readonly MemberTables[]): Promise<void> {
    const complete = found.filter(({ hasAll }) => hasAll);
    const lost = found.filter(
      ({ member, hasAll, hasRows }) =>
        !hasAll && complete.some((other) => hasRows || other.member.shard === member.shard),
    );
    if (lost.length === 0) return;
    await this.#options.follow();
    const available = this.#options.available();
    for (const { member } of lost) if (available.includes(member)) this.#options.lose(member, message);
  }
}

/** What a member has of a table or view. */
export interface MemberTables {
  readonly member: Member;
  readonly hasAll: boolean;
  /** It has the table with rows of its own, or needs none. */
  readonly hasRows: boolean;
}

/** The work may be done by another server. What the statement has done elsewhere is unknown. */
const missingFailure = (cause: ClickHouseError): Failure =>
  new Failure(
    'WAREHOUSE_FAILED',
    lacksTables,
    {},
    { cause: Object.assign(new EngineLost({ isToBlame: false }), { cause }), outcome: 'unknown' },
  );

/** Of a change that needs the table on every server. */
export const lacksTableFailure = (): Failure =>
  new Failure('WAREHOUSE_FAILED', lacksTables, {}, { outcome: 'notApplied' });

/** The names of what a server misses: those that it names, or, if it names only a database or a table alone, those in the statement. */
function absentNames(error: ClickHouseError, sql: string): readonly TableName[] {
  const text = callerMessage(error);
  const named = namesIn(text);
  if (named.length > 0) return named;
  return namesIn(sql).filter((name) => {
    const { database, table } = namesOf(name);
    return text.includes(database) || text.includes(table);
  });
}

function namesIn(text: string): readonly TableName[] {
  const names = new Map<string, TableName>();
  const add = (database: string, table: string) => {
    const parsed = names.size < namesMax ? parsedDatabase(database) : undefined;
    if (parsed) names.set(JSON.stringify([database, table]), { ...parsed, table: parsedTable(table) });
  };
  const searched = text.slice(0, textCharactersMax);
  for (const [, database = '', table = ''] of searched.matchAll(qualified))
    add(unquoteIdentifier(database), unquoteIdentifier(table));
  // An identifier as a whole, without the quotes of its parts, in which there may be dots.
  for (const [, identifier = ''] of searched.matchAll(/'((?:[^'\\]|\\.)+)'/g))
    for (const { index } of identifier.matchAll(/\./g)) add(identifier.slice(0, index), identifier.slice(index + 1));
  return [...names.values()];
}

/**
 * Throws what a server answers that lacks a table, or 503 if it should have it: to be called where its system tables have no rows of the
 * table.
 */
export async function requireTable(
  server: ClickHouseServer,
  place: { readonly database: string; readonly table: string },
): Promise<void> {
  await server.text({ sql: `DESCRIBE TABLE ${qualifiedName(place)}`, timeoutMs: callMs });
}

/** Whether a server rightly lacks a table: false if it has it by now. Throws 503 if it should have it. */
export async function isUndefinedTable(...parameters: Parameters<typeof requireTable>): Promise<boolean> {
  try {
    await requireTable(...parameters);
    return false;
  } catch (error) {
    if (error instanceof ClickHouseError) return true;
    throw error;
  }
}
