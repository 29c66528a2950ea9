// Analyzes statements of callers: which tables and views they read and write, in what form the servers run them, and of which definitions
// that holds. The order is that of trust: bounds and form of the text, its names, the functions and clauses in its tree, and only for a
// statement that was authorized anything that a server resolves.
import { Failure } from '../../../standard/failure.ts';
import type { TableName } from '../../port/refs.ts';
import type { Statement, StatementAnalysis } from '../../port/statements.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { qualifiedName, unquoteIdentifier } from '../sql/identifiers.ts';
import { commonTablePrefix, RewrittenStatement } from '../sql/rewrite_query.ts';
import type { RewrittenText } from '../sql/rewritten_text.ts';
import { statementFailure } from '../sql/server_errors.ts';
import { forbiddenFunction } from '../sql/sql_failures.ts';
import { statementLimits } from '../sql/statement_limits.ts';
import type { StatementShape } from '../sql/statement_shape.ts';
import type { NamedTable } from '../sql/table_names.ts';
import { isName, nameOf, type Token } from '../sql/tokens.ts';
import { serverType } from '../types/type_mapping.ts';
import { LocalReads } from './local_reads.ts';
import { missingTable, type ParsedStatement, parseStatement, resolveName } from './parsed_statement.ts';
import { ForbiddenName, type NamedInTree } from './query_tree.ts';
import { readingQuery } from './reading_query.ts';
import { ShownDefinitions } from './shown_definition.ts';
import { keyOf, type NameCodec, readObjects, type StoredObject, tokenOf } from './stored_objects.ts';
import { QueryTrees, treePrefix } from './tree_cache.ts';
import { ambiguousName, placeInStored, refuseStoredNames, treeName } from './tree_names.ts';

export interface ReadOptions {
  readonly signal?: AbortSignal | undefined;
  /** Parameters without a value are null. */
  readonly isUnknownNull?: boolean;
  /** What an earlier reading of the statement found, instead of what the server has now. */
  readonly known?: KnownObjects | undefined;
  /** The text names the local tables instead of the Distributed ones. The objects must be known. */
  readonly isLocal?: boolean;
}

export interface ReadStatement {
  readonly tokens: readonly Token[];
  readonly analysis: StatementAnalysis;
  readonly shape: StatementShape;
  readonly rewritten: RewrittenStatement;
  /** The query of a SELECT, or what a statement that writes reads, as a query. */
  readonly query: RewrittenText | undefined;
  readonly target: StoredObject | undefined;
  /** Functions in the text that another server computes otherwise, such as `now`. */
  readonly varyingFunctions: readonly string[];
  /** The objects that the text names, with how often. */
  readonly named: readonly { readonly object: StoredObject; readonly uses: number }[];
  readonly toFailure: (error: unknown, prefix?: string) => unknown;
}

/** What a server has in every query without FROM. */
const noTable = 'system.one';
const knownMax = 1_000;

export class StatementReader {
  readonly codec: NameCodec;
  readonly #trees = new QueryTrees();
  readonly #shown = new ShownDefinitions();
  readonly #local = new LocalReads(this.#shown);
  /** By the tokens of analyses. */
  readonly #known = new Map<string, KnownObjects>();
  #functions: { readonly version: string; readonly names: ReadonlySet<string> } | undefined;

  constructor(codec: NameCodec) {
    this.codec = codec;
  }

  /** Throws SQL_INVALID, SQL_NOT_SUPPORTED, SQL_FORBIDDEN_FUNCTION or PARAMETERS_INVALID. */
  async read(
    server: ClickHouseServer,
    statement: Statement,
    { signal, isUnknownNull = false, known, isLocal = false }: ReadOptions = {},
  ): Promise<ReadStatement> {
    const parsed = await parseStatement(statement.sql);
    const { sql, tokens, shape, names } = parsed;
    refuseStoredNames(tokens, names.tables);
    const resolved = names.tables.map((table) => ({ table, name: resolveName(parsed, table, statement) }));
    const written = resolved.map(({ name }) => name);
    const isKnown = known && written.every((name) => known.objects.has(keyOf(name)));
    const placeOf = ({ stored }: StoredObject) => (isLocal ? { ...stored, table: stored.localTable } : stored);
    const { objects, under } = isKnown ? known : await this.#objectsWithViews(server, written);
    const objectOf = new Map<NamedTable, StoredObject>();
    for (const { table, name } of resolved) {
      const object = objects.get(keyOf(name));
      if (!object) throw missingTable(sql, tokens, table.parts, table.first);
      objectOf.set(table, object);
    }
    const rewritten = new RewrittenStatement(sql, tokens, names, {
      catalog: statement.catalog.name,
      database: statement.database,
      caller: statement.caller,
      typeText: (type) => serverType(type, false),
      parameters: statement.parameters,
      isUnknownNull,
      qualifiedName: (table) => qualifiedName(placeOf(objectOf.get(table) as StoredObject)),
    });
    const target = parsed.target && objectOf.get(parsed.target);
    if (target?.viewQuery !== undefined)
      throw new Failure('SQL_NOT_SUPPORTED', 'a view cannot be written to; write to its tables');
    const query = readingQuery(shape, rewritten, parsed.tokens, target?.stored);
    const toFailure = this.#failures(parsed, query ?? rewritten.text());
    const tree = query && (await this.#treeOf(server, parsed, query, rewritten, signal, toFailure));
    const uses = Map.groupBy(objectOf.values(), (object) => object);
    const byTreeName = new Map([...uses.keys()].map((object) => [treeName(placeOf(object)), object]));
    const read = (tree?.tables ?? []).flatMap((name): StoredObject[] => {
      if (name === noTable) return [];
      const object = byTreeName.get(name);
      if (!object) throw ambiguousName();
      return [object];
    });
    const used = withViews(read, objects, under);
    const analysis: StatementAnalysis = {
      kind: shape.kind,
      reads: used.filter(({ viewQuery }) => viewQuery === undefined).map(({ name }) => name),
      views: used.filter(({ viewQuery }) => viewQuery !== undefined).map(({ name }) => name),
      writes: target ? [target.name] : [],
      token: tokenOf(withViews([...uses.keys()], objects, under)),
    };
    if (!isKnown) this.#remember(analysis.token, { objects, under, named: [...uses.keys()].map(({ name }) => name) });
    const named = [...uses].map(([object, places]) => ({ object, uses: places.length }));
    const { varyingFunctions = [] } = tree ?? {};
    return { tokens, analysis, shape, rewritten, query, target, varyingFunctions, named, toFailure };
  }

  /** What the analysis with this token was made of; undefined if it is no longer remembered. */
  objectsOf(token: string): KnownObjects | undefined {
    return this.#known.get(token);
  }

  /** Whether an analysis made now would have the same token. */
  async isCurrent(server: ClickHouseServer, token: string, { named, objects: known }: KnownObjects): Promise<boolean> {
    // Most statements that have to be fast name one table.
    const table = onlyTableOf({ objects: known });
    if (table && (await this.#shown.isCurrent(server, table))) return true;
    const { objects, under } = await this.#objectsWithViews(server, named);
    const found = named.flatMap((name) => objects.get(keyOf(name)) ?? []);
    return found.length === named.length && tokenOf(withViews(found, objects, under)) === token;
  }

  /** The table whose local table can be read instead, if the server has all rows. */
  localReadOf(known: KnownObjects): StoredObject | undefined {
    const table = onlyTableOf(known);
    return table && this.#local.canRead(table) ? table : undefined;
  }

  /** Whether the local table has the columns that the analysis found. False also if the server cannot tell. */
  async isLocalCurrent(server: ClickHouseServer, table: StoredObject): Promise<boolean> {
    return this.#local.isCurrent(server, table);
  }

  #remember(token: string, known: KnownObjects): void {
    if (this.#known.size >= knownMax) this.#known.delete(this.#known.keys().next().value as string);
    this.#known.set(token, known);
  }

  /** The objects of these names, and those under the views among them, with what each view reads. */
  async #objectsWithViews(
    server: ClickHouseServer,
    names: readonly TableName[],
  ): Promise<Pick<KnownObjects, 'objects' | 'under'>> {
    const objects = await readObjects(server, names, this.codec);
    const under = new Map<StoredObject, readonly TableName[]>();
    let added = [...objects.values()];
    for (let depth = 0; added.length > 0; depth++) {
      if (depth > statementLimits.viewDepth)
        throw new Failure('SQL_NOT_SUPPORTED', `views are nested more than ${statementLimits.viewDepth} levels deep`);
      for (const object of added)
        if (object.viewQuery !== undefined) under.set(object, await this.#tablesOfView(server, object.viewQuery));
      const missing = added.flatMap((object) => under.get(object) ?? []).filter((name) => !objects.has(keyOf(name)));
      const found = await readObjects(server, missing, this.codec);
      if (missing.some((name) => !found.has(keyOf(name))))
        throw sqlInvalid(
          'a view that the statement reads is not valid: it reads a table that does not exist',
          '',
          undefined,
        );
      for (const [key, object] of found) objects.set(key, object);
      added = [...found.values()];
    }
    return { objects, under };
  }

  /** The tables and views that the query of a stored view names. */
  async #tablesOfView(server: ClickHouseServer, query: string): Promise<TableName[]> {
    const { tables } = await this.#trees.namedIn(server, { text: query, parameters: {} }, true);
    return tables.flatMap((table) => {
      if (table === noTable) return [];
      const name = this.codec.named(placeInStored(table, query));
      if (!name)
        throw new Failure(
          'SQL_NOT_SUPPORTED',
          'a view that the statement reads has tables that are not part of a catalog',
        );
      return [name];
    });
  }

  async #treeOf(
    server: ClickHouseServer,
    parsed: ParsedStatement,
    query: RewrittenText,
    { parameters }: RewrittenStatement,
    signal: AbortSignal | undefined,
    toFailure: ReadStatement['toFailure'],
  ): Promise<NamedInTree> {
    try {
      return await this.#trees.namedIn(server, { text: query.text, parameters, signal });
    } catch (error) {
      if (error instanceof ForbiddenName) throw await this.#forbidden(server, error.function, parsed);
      throw toFailure(error, treePrefix);
    }
  }

  /** A function that the server does not have is an error in the text. */
  async #forbidden(server: ClickHouseServer, name: string, { sql, tokens }: ParsedStatement): Promise<Failure> {
    if (this.#functions?.version !== server.version) {
      const rows = await server.rows<{ name: string }>({
        sql: `SELECT lower(name) AS name FROM system.functions WHERE origin = 'System' UNION ALL SELECT lower(name) FROM system.table_functions`,
        timeoutMs: 5_000,
      });
      this.#functions = { version: server.version, names: new Set(rows.map((row) => row.name)) };
    }
    const isKnown = [...this.#functions.names].some((known) => {
      const lower = name.toLowerCase();
      return (
        lower === known ||
        (lower.startsWith(known) &&
          /^(?:if|array|map|state|merge|foreach|distinct|ornull|ordefault|resample|argmin|argmax|simplestate|mergestate)+$/.test(
            lower.slice(known.length),
          ))
      );
    });
    const place = tokens.find((token, i) => isName(token) && nameOf(token) === name && tokens[i + 1]?.text === '(');
    return isKnown
      ? forbiddenFunction(name)
      : sqlInvalid(`the function ${JSON.stringify(name)} does not exist`, sql, place?.start);
  }

  #failures({ sql, tokens }: ParsedStatement, rewritten: RewrittenText): ReadStatement['toFailure'] {
    return (error, prefix = '') =>
      statementFailure(error, { sql, tokens, rewritten, prefix, publicText: (text) => this.publicText(text) });
  }

  /** A text of a server with the names that callers know. */
  publicText(text: string): string {
    const part = String.raw`(?:\`(?:[^\`\\]|\\.)*\`|[A-Za-z0-9_%]+)`;
    return text
      .replaceAll(commonTablePrefix, '')
      .replace(new RegExp(String.raw`(${part})\.(${part})`, 'g'), (all: string, database: string, table: string) => {
        const name = this.codec.named({
          database: unquoteIdentifier(database),
          table: unquoteIdentifier(table).replace(/__local$/, ''),
        });
        return name ? [name.catalog, name.database, name.table].map(shown).join('.') : all;
      })
      .replace(/\b_?tabularium_\w+/g, '<engine>')
      .replace(/\b(\w+)__local\b/g, '$1');
  }
}

const shown = (name: string) => (/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name));

/** What the names of a statement stand for. */
export interface KnownObjects {
  /** Those in the text. */
  readonly named: readonly TableName[];
  /** By `keyOf`. */
  readonly objects: ReadonlyMap<string, StoredObject>;
  /** What each view names. */
  readonly under: ReadonlyMap<StoredObject, readonly TableName[]>;
}

/** Undefined if there are several objects, or if it is a view. */
function onlyTableOf({ objects }: Pick<KnownObjects, 'objects'>): StoredObject | undefined {
  const [table] = objects.values();
  return objects.size === 1 && table?.viewQuery === undefined ? table : undefined;
}

/** These objects, and all that the views among them read. */
function withViews(
  read: readonly StoredObject[],
  objects: KnownObjects['objects'],
  under: KnownObjects['under'],
): readonly StoredObject[] {
  const found = new Set(read);
  for (const object of found)
    for (const name of under.get(object) ?? []) {
      const next = objects.get(keyOf(name));
      if (next) found.add(next);
    }
  return [...found];
}
