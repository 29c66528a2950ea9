// Reads the query tree of a query before ClickHouse resolves it (`EXPLAIN QUERY TREE run_passes = 0`), and reports the tables and functions
// that it names. The resolved tree is never asked for: to make it, the server runs scalar subqueries, calls functions of constants and
// connects to other servers, all of it before anything is authorized. A node or clause that is not known is refused.
import { Failure } from '../../../standard/failure.ts';
import {
  allowedTableFunctions,
  isAllowedFunction,
  isMembership,
  isVarying,
  refusedType,
  takesType,
} from '../sql/function_allowlist.ts';

export interface NamedInTree {
  /** Tables as the tree names them: `database.table`, without quotes. */
  readonly tables: readonly string[];
  /** Names without a database at places of tables, which must be those of common table expressions. */
  readonly commonTables: readonly string[];
  /** Functions that another server computes otherwise, such as `now`. */
  readonly varyingFunctions: readonly string[];
}

/** Nothing else can be in a tree. */
const nodes: ReadonlySet<string> = new Set([
  'ARRAY_JOIN',
  'CONSTANT',
  'CROSS JOIN',
  'EXCEPT COLUMN TRANSFORMER',
  'FUNCTION',
  'IDENTIFIER',
  'INTERPOLATE',
  'JOIN',
  'LAMBDA',
  'LIST',
  'MATCHER',
  'QUERY',
  'REPLACE COLUMN TRANSFORMER',
  'SORT',
  'TABLE_FUNCTION',
  'UNION',
  'WINDOW',
]);

const sections =
  /^(?:ARGUMENTS ?|EXPRESSION(?: .*)?|FILL (?:FROM|TO|STEP|STALENESS)|FRAME (?:BEGIN|END) OFFSET|GROUP BY|HAVING|INTERPOLATE|INTERPOLATE_EXPRESSION|JOIN EXPRESSIONS?|JOIN TREE|LEFT TABLE EXPRESSION|LIMIT|LIMIT BY|LIMIT BY LIMIT|LIMIT BY OFFSET|OFFSET|ORDER BY|PARAMETERS|PARTITION BY|PREWHERE|PROJECTION|QUALIFY|QUERIES|REPLACEMENT NAME .*|REPLACEMENTS \d+|RIGHT TABLE EXPRESSION|TABLE EXPRESSION|WHERE|WINDOW|WITH)$/;
/** Sections in which an identifier is a table. */
const tableSections: ReadonlySet<string> = new Set([
  'JOIN TREE',
  'LEFT TABLE EXPRESSION',
  'RIGHT TABLE EXPRESSION',
  'TABLE EXPRESSION',
]);

const nodePattern = /^([A-Z][A-Z_ ]*?) id: \d+(?:, (.*))?$/;

interface Line {
  readonly depth: number;
  /** The kind of a node, or the title of a section. */
  readonly title: string;
  readonly details: string;
  readonly isNode: boolean;
}

interface Call {
  readonly name: string;
  readonly depth: number;
  argumentCount: number;
  /** The last argument, if it is a constant text. */
  lastConstant: string | undefined;
}

export class TreeReader {
  /** The text is one that the adapter stored: its functions and types were checked before. */
  readonly #isOwn: boolean;
  readonly #tables = new Set<string>();
  readonly #names = new Set<string>();
  readonly #declared = new Set<string>();
  readonly #varying = new Set<string>();
  /** Names that stand for another name. */
  readonly #aliasedNames = new Set<string>();
  readonly #path: Line[] = [];
  /** A function whose arguments are being read: its depth, and how many of them were read. */
  readonly #calls: Call[] = [];

  constructor({ isOwn = false } = {}) {
    this.#isOwn = isOwn;
  }

  /** Reads the next line. Throws SQL_FORBIDDEN_FUNCTION or SQL_NOT_SUPPORTED. */
  read(text: string): void {
    const line = lineOf(text);
    while ((this.#path.at(-1)?.depth ?? -1) >= line.depth) this.#path.pop();
    while ((this.#calls.at(-1)?.depth ?? -1) >= line.depth) this.#endCall();
    if (line.isNode) this.#node(line);
    this.#path.push(line);
  }

  end(): NamedInTree {
    while (this.#calls.length > 0) this.#endCall();
    for (const name of this.#names) {
      if (this.#aliasedNames.has(name) || !this.#declared.has(name))
        throw new Failure('SQL_INVALID', `the table ${JSON.stringify(name)} does not exist`, { line: 1, column: 1 });
    }
    return { tables: [...this.#tables], commonTables: [...this.#names], varyingFunctions: [...this.#varying] };
  }

  #node(line: Line): void {
    if (!nodes.has(line.title)) throw unsupported(line.title);
    const { details } = line;
    const call = this.#callOfArgument(line);
    if (call) {
      call.argumentCount++;
      call.lastConstant = line.title === 'CONSTANT' ? stringConstant(details) : undefined;
      if (isMembership(call.name) && call.argumentCount === 2 && line.title === 'IDENTIFIER')
        this.#table(identifierIn(details));
    }
    switch (line.title) {
      case 'FUNCTION': {
        const name = attribute(details, 'function_name', /, function_type: |, nulls_action/);
        if (!this.#isOwn && !isAllowedFunction(name)) throw new ForbiddenName(name);
        if (isVarying(name)) this.#varying.add(name);
        this.#calls.push({ name, depth: line.depth, argumentCount: 0, lastConstant: undefined });
        return;
      }
      case 'TABLE_FUNCTION': {
        const name = attribute(details, 'table_function_name', /, settings|$/);
        if (!this.#isOwn && !allowedTableFunctions.has(name)) throw new ForbiddenName(name);
        return;
      }
      case 'IDENTIFIER':
        if (/, stream\b/.test(details)) throw unsupported('stream');
        if (tableSections.has(this.#path.at(-1)?.title ?? '')) this.#table(identifierIn(details));
        else this.#note(details);
        return;
      case 'MATCHER':
        if (details.includes('REGEXP'))
          throw new Failure('SQL_NOT_SUPPORTED', 'COLUMNS with a pattern is not supported');
        return;
      case 'EXCEPT COLUMN TRANSFORMER':
        if (!details.includes('except_transformer_type: COLUMN_LIST'))
          throw new Failure('SQL_NOT_SUPPORTED', 'EXCEPT with a pattern is not supported');
        return;
      case 'QUERY':
      case 'UNION': {
        const [, declared] = /(?:^|, )cte_name: (.*?)(?:, [a-z_]+: .*)?$/.exec(details) ?? [];
        if (declared !== undefined) this.#declared.add(declared);
        return;
      }
      default:
    }
  }

  /** Names outside of the places of tables are columns, but an alias of one could be used as a table. */
  #note(details: string): void {
    const [, alias] = /(?:^|, )alias: (.*?), identifier: /.exec(details) ?? [];
    if (alias !== undefined) this.#aliasedNames.add(alias);
  }

  #table(name: string): void {
    if (name.includes('.')) this.#tables.add(name);
    else this.#names.add(name);
  }

  /** The call of which this node is an argument. */
  #callOfArgument({ depth }: Line): Call | undefined {
    const call = this.#calls.at(-1);
    if (!call || depth !== call.depth + 3) return undefined;
    return this.#path.at(-2)?.title.trim() === 'ARGUMENTS' ? call : undefined;
  }

  #endCall(): void {
    const call = this.#calls.pop();
    if (!call || this.#isOwn || !takesType(call.name)) return;
    if (call.lastConstant === undefined)
      throw new Failure('SQL_NOT_SUPPORTED', `the type in ${call.name} must be written as a constant`);
    const word = refusedType(call.lastConstant);
    if (word !== undefined) throw new Failure('SQL_NOT_SUPPORTED', `the type ${JSON.stringify(word)} is not supported`);
  }
}

/** A function or table function that is not on the list. */
export class ForbiddenName extends Error {
  override name = 'ForbiddenName';
  readonly function: string;

  constructor(name: string) {
    super(`the function ${JSON.stringify(name)} is not available`);
    this.function = name;
  }
}

function lineOf(text: string): Line {
  const content = text.trimStart();
  const depth = (text.length - content.length) / 2;
  const [, title, details = ''] = nodePattern.exec(content) ?? [];
  if (title !== undefined) return { depth, title, details, isNode: true };
  if (content.startsWith('SETTINGS')) throw new Failure('SQL_NOT_SUPPORTED', 'SETTINGS is not supported');
  if (!Number.isInteger(depth) || !sections.test(content)) throw unsupported(content.split(/ id: |:/)[0] ?? '');
  return { depth, title: content, details: '', isNode: false };
}

const unsupported = (what: string): Failure =>
  new Failure(
    'SQL_NOT_SUPPORTED',
    `the statement has a clause that is not supported: ${what.trim().slice(0, 40).toLowerCase()}`,
  );

function identifierIn(details: string): string {
  return attribute(details, 'identifier', /, (?:final|sample_size|sample_offset): /);
}

function attribute(details: string, name: string, end: RegExp): string {
  const key = `${name}: `;
  const start = details.startsWith(key) ? 0 : details.lastIndexOf(`, ${key}`) + 2;
  const [value = ''] = details.slice(start + key.length).split(end);
  return value;
}

/** The text of a constant that is a string. */
function stringConstant(details: string): string | undefined {
  const [, literal] = /(?:^|, )constant_value: '(.*)', constant_value_type: String$/.exec(details) ?? [];
  return literal?.replaceAll(/\\(.)/g, '$1');
}
