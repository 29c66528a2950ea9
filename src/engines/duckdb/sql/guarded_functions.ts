// Functions of the engine that can exceed the limits of a process: its memory, its stack, or the time until an interrupt takes
// effect. On every connection each is shadowed by a temporary macro of the same name that checks the arguments: constants while
// they are folded, parameters and columns for each row. A statement cannot name the original (see refuseCall in
// statement_checks.ts). Functions that return the caller, the namespace or the product are shadowed too, because the originals
// return the engine's own user, schema and version.
import type { DuckDBConnection } from '@duckdb/node-api';
import { release } from '../../../model/release.ts';
import { callerFunctions } from '../../port/statements.ts';
import { quoteIdentifier, quoteLiteral } from './identifiers.ts';
import { statementLimits as limits } from './statement_limits.ts';

interface Guard {
  readonly names: readonly string[];
  readonly parameters: readonly string[];
  /** The arguments for the original function of that name. */
  readonly call: (name: string) => string;
  /**
   * Set for functions whose calls are often nested: a macro repeats an argument wherever it uses it, so each level of nesting would
   * multiply the text. The arguments are evaluated once into `g` instead, to which `call` refers. The original then gets no
   * constant arguments.
   */
  readonly isNested?: true;
}

/** `then` unless the condition holds. The caller casts a numeric `then`: otherwise a parameter in it would have no definite type. */
const unless = (condition: string, message: string, then: string) =>
  `(CASE WHEN ${condition} THEN error(${quoteLiteral(message)}) ELSE ${then} END)`;

const boundedSize = (name: string) =>
  `${unless(`n > ${limits.listItems}`, `${name} makes at most ${limits.listItems} items`, 'n')}::BIGINT`;

/** The number of items of a series of numbers, or of times with an interval. */
const seriesItems = `coalesce(
  (try_cast(b::VARCHAR AS DOUBLE) - try_cast(a::VARCHAR AS DOUBLE)) / try_cast(s::VARCHAR AS DOUBLE),
  (epoch(try_cast(b::VARCHAR AS TIMESTAMPTZ)) - epoch(try_cast(a::VARCHAR AS TIMESTAMPTZ))) / epoch(try_cast(s::VARCHAR AS INTERVAL)))`;
const boundedSeries = (items: string, name: string, then: string) =>
  unless(`${items} > ${limits.listItems}`, `${name} makes at most ${limits.listItems} items`, then);

const shallowJson = '__tabularium_shallow_json';

/**
 * A macro that tests whether JSON text is nested no deeper than the limit. A regular expression of limited depth is a finite
 * automaton: the engine reads the text once, at 300 MB/s. Texts too short to be that deep are not scanned.
 */
function shallowJsonMacro(): string {
  const text = String.raw`"(?:[^"\\]|\\.)*"`;
  let nested = '';
  for (let level = 0; level < limits.jsonDepth; level++)
    nested = String.raw`[\[{](?:[^\[\]{}"]|${text}${nested === '' ? '' : `|${nested}`})*[\]}]`;
  const pattern = `(?:[^\\[\\]{}"]|${text}|${nested})*`;
  return `CREATE OR REPLACE TEMP MACRO ${shallowJson}(j) AS strlen(j) <= ${2 * limits.jsonDepth} OR regexp_full_match(j, ${quoteLiteral(pattern)}, 's')`;
}

const boundedDepth = (name: string, value: string) =>
  unless(`NOT ${shallowJson}(${value})`, `${name} takes JSON of at most ${limits.jsonDepth} levels`, value);

/** Binding works the structure out, so the check may not throw by itself: the message takes the structure's place, and is no JSON. */
const boundedStructure = (name: string) =>
  `CASE WHEN strlen(s) > ${limits.jsonStructureBytes} THEN ${quoteLiteral(`(${name} takes a structure of at most ${limits.jsonStructureBytes} bytes)`)} ELSE s END`;

const mergedMax = 8;
const patches = (count: number) => Array.from({ length: count }, (_, i) => `p${i + 1}`);

const formattedMax = 16;

/**
 * Checks a format: its widths and precisions must be written in it, in few digits. The values are used once only, because nested
 * calls would double the text with each level.
 */
const boundedFormat = (name: string, escaped: string, unbounded: string) =>
  unless(
    `strlen(f) > ${limits.formatBytes} OR regexp_matches(replace(f, '${escaped}', ''), ${quoteLiteral(unbounded)})`,
    `${name} takes a format of at most ${limits.formatBytes} bytes, with widths and precisions written in it of at most ${limits.formatDigits} digits`,
    'f',
  );
const formats: Readonly<Record<string, string>> = {
  format: boundedFormat('format', '{{', String.raw`\{[^{}]*([0-9]{${limits.formatDigits + 1}}|\{)`),
  printf: boundedFormat('printf', '%%', String.raw`%[^%a-zA-Z]*([0-9]{${limits.formatDigits + 1}}|\*)`),
};
const formatGuards = Object.entries(formats).flatMap(([name, text]) =>
  Array.from({ length: formattedMax + 1 }, (_, count): Guard => {
    const values = Array.from({ length: count }, (_, i) => `v${i}`);
    return { names: [name], parameters: ['f', ...values], call: () => [text, ...values].join(', ') };
  }),
);

/** The product is an upper bound of the size; occurrences are counted only if it exceeds the limit. */
const boundedReplace = (name: string) => {
  const times = `(strlen(g.t) - strlen(system.main.replace(g.t, g.o, ''))) / nullif(strlen(g.o), 0)`;
  const tooLong = unless(
    `strlen(g.t) + ${times} * strlen(g.r) > ${limits.textBytes}`,
    `${name} makes a text of at most ${limits.textBytes} bytes`,
    'g.r',
  );
  return `g.t, g.o, CASE WHEN strlen(g.t)::DOUBLE * strlen(g.r) > ${limits.textBytes} THEN ${tooLong} ELSE g.r END`;
};
/** The text is used once, because calls are nested in it; patterns and options must stay constants to be fast. */
const boundedReplacement = (name: string) =>
  unless(
    `strlen(r) > ${limits.replacementBytes}`,
    `${name} takes a replacement of at most ${limits.replacementBytes} bytes`,
    'r',
  );
/** The check is part of the text argument, so that a constant pattern stays a constant. */
const boundedSearch = (name: string) =>
  unless(
    `strlen(t)::DOUBLE * strlen(p) > ${limits.searchedBytes}`,
    `${name} takes a text and a pattern whose lengths multiplied are at most ${limits.searchedBytes}`,
    't',
  );
const timeZone = (name: string) =>
  unless(
    `strlen(z::VARCHAR) > ${limits.timeZoneBytes}`,
    `${name} takes the name of a time zone, of at most ${limits.timeZoneBytes} bytes`,
    'z',
  );

const guards: readonly Guard[] = [
  ...formatGuards,
  {
    names: ['lpad', 'rpad'],
    parameters: ['t', 'n', 'p'],
    call: (name) =>
      `t, ${unless(`n > ${limits.paddedCharacters}`, `${name} pads to at most ${limits.paddedCharacters} characters`, 'n')}::INTEGER, p`,
  },
  {
    names: ['bitstring'],
    parameters: ['t', 'n'],
    call: (name) =>
      `t, ${unless(`n > ${limits.bitstringBits}`, `${name} makes at most ${limits.bitstringBits} bits`, 'n')}::INTEGER`,
  },
  { names: ['list_resize', 'array_resize'], parameters: ['l', 'n'], call: (name) => `l, ${boundedSize(name)}` },
  { names: ['list_resize', 'array_resize'], parameters: ['l', 'n', 'v'], call: (name) => `l, ${boundedSize(name)}, v` },
  {
    names: ['repeat'],
    parameters: ['t', 'n'],
    call: (name) =>
      `t, ${unless(
        `strlen(t::VARCHAR)::DOUBLE * n > CASE WHEN typeof(t) LIKE '%]' THEN ${limits.repeatedListBytes} ELSE ${limits.textBytes} END`,
        `${name} makes a text of at most ${limits.textBytes} bytes, or a list of at most ${limits.repeatedListBytes} bytes when it is written as text`,
        'n',
      )}::BIGINT`,
  },
  { names: ['replace'], parameters: ['t', 'o', 'r'], call: boundedReplace, isNested: true },
  {
    names: ['regexp_replace'],
    parameters: ['t', 'p', 'r'],
    call: (name) => `t, p, ${boundedReplacement(name)}`,
  },
  {
    names: ['regexp_replace'],
    parameters: ['t', 'p', 'r', 'o'],
    call: (name) => `t, p, ${boundedReplacement(name)}, o`,
  },
  {
    names: ['regexp_extract_all', 'regexp_split_to_array', 'string_split_regex', 'str_split_regex'],
    parameters: ['t', 'p'],
    call: (name) => `${boundedSearch(name)}, p`,
  },
  {
    names: ['regexp_extract_all', 'regexp_split_to_array', 'string_split_regex', 'str_split_regex'],
    parameters: ['t', 'p', 'o'],
    call: (name) => `${boundedSearch(name)}, p, o`,
  },
  {
    names: ['regexp_extract_all'],
    parameters: ['t', 'p', 'i', 'o'],
    call: (name) => `${boundedSearch(name)}, p, i, o`,
  },
  {
    names: ['list_select', 'array_select'],
    parameters: ['l', 'i'],
    call: (name) =>
      `l, ${unless(
        `list_max(list_transform(l, lambda e: strlen(e::VARCHAR)))::DOUBLE * len(i) > ${limits.repeatedListBytes}`,
        `${name} selects items of at most ${limits.repeatedListBytes} bytes together when they are written as text`,
        'i',
      )}`,
  },
  { names: ['timezone', 'make_timestamptz'], parameters: ['p'], call: () => 'p' },
  { names: ['timezone'], parameters: ['z', 'p'], call: (name) => `${timeZone(name)}, p` },
  { names: ['make_timestamptz'], parameters: ['y', 'm', 'd', 'h', 'i', 's'], call: () => 'y, m, d, h, i, s' },
  {
    names: ['make_timestamptz'],
    parameters: ['y', 'm', 'd', 'h', 'i', 's', 'z'],
    call: (name) => `y, m, d, h, i, s, ${timeZone(name)}`,
  },
  {
    names: ['range', 'generate_series'],
    parameters: ['b'],
    call: (name) => `${boundedSeries('b', name, 'b')}::BIGINT`,
  },
  {
    names: ['range', 'generate_series'],
    parameters: ['a', 'b'],
    call: (name) => `a, ${boundedSeries('b::DOUBLE - a::DOUBLE', name, 'b')}`,
  },
  {
    names: ['range', 'generate_series'],
    parameters: ['a', 'b', 's'],
    call: (name) => `a, ${boundedSeries(seriesItems, name, 'b')}, s`,
  },
  {
    names: ['levenshtein', 'editdist3', 'damerau_levenshtein', 'jaro_similarity', 'jaro_winkler_similarity'],
    parameters: ['a', 'b'],
    call: (name) =>
      `a, ${unless(
        `strlen(a) * strlen(b) > ${limits.comparedBytes}`,
        `${name} compares texts whose lengths multiplied are at most ${limits.comparedBytes}`,
        'b',
      )}`,
  },
  {
    names: ['from_json', 'from_json_strict', 'json_transform', 'json_transform_strict'],
    parameters: ['j', 's'],
    call: (name) => `j, ${boundedStructure(name)}`,
  },
  { names: ['json_structure', 'json_pretty'], parameters: ['j'], call: (name) => boundedDepth(name, 'j') },
  ...Array.from({ length: mergedMax - 1 }, (_, i) => patches(i + 2)).map((parameters) => ({
    names: ['json_merge_patch'],
    parameters,
    call: (name: string) => parameters.map((parameter) => boundedDepth(name, parameter)).join(', '),
  })),
];

/** One statement per name: the overloads of a macro must be created together. */
const texts = [...new Set(guards.flatMap(({ names }) => names))].map((name) => {
  const forms = guards
    .filter(({ names }) => names.includes(name))
    .map(({ parameters, call, isNested }) => {
      const body = `system.main.${name}(${call(name)})`;
      const fields = parameters.map((parameter) => `${parameter}: ${parameter}`).join(', ');
      return `(${parameters.join(', ')}) AS ${isNested ? `list_transform([{${fields}}], lambda g: ${body})[1]` : body}`;
    });
  return `CREATE OR REPLACE TEMP MACRO ${name}${forms.join(', ')}`;
});

/** Without a database in the namespace, the default schema is an internal one. */
const productFunctions = [
  `CREATE OR REPLACE TEMP MACRO version() AS ${quoteLiteral(`Tabularium ${release}`)}`,
  `CREATE OR REPLACE TEMP MACRO current_schema() AS nullif(system.main.current_schema(), 'main')`,
];

const refusalOf = (name: string) =>
  `the function ${JSON.stringify(name)} is not allowed in a view: its result depends on who reads the view`;
const refusals = new Map<string, string>(callerFunctions.map((name) => [refusalOf(name), name]));

/** The refused function, if a plan calls error() with one of these messages; undefined if the statement itself calls error(). */
export const refusedFunction = (message: unknown): string | undefined => refusals.get(String(message));

/**
 * Defines the functions that return the caller. They can also be written without parentheses where no column has the name, which
 * only the binder can tell. Without a caller, as in a view, they call error(), which the analysis finds in the plan and refuses.
 */
export async function defineCallerFunctions(connection: DuckDBConnection, caller: string | undefined): Promise<void> {
  const texts = callerFunctions.map((name) => {
    const value = caller === undefined ? `error(${quoteLiteral(refusalOf(name))})::VARCHAR` : quoteLiteral(caller);
    return `CREATE OR REPLACE TEMP MACRO ${quoteIdentifier(name)}() AS ${value}`;
  });
  await connection.run(texts.join(';\n'));
}

/** Call it for every connection that binds SQL of callers. */
export async function guardFunctions(connection: DuckDBConnection): Promise<void> {
  await connection.run([shallowJsonMacro(), ...texts, ...productFunctions].join(';\n'));
  await defineCallerFunctions(connection, undefined);
}
