// Functions of the engine that can be asked for more than a process has: more memory, time without an interrupt, or stack. Each is
// shadowed on every connection by a temporary macro of the same name, which checks the arguments where they are known: constants
// while they are folded, parameters and columns row by row. A statement cannot name the original (refuseCall in statement_checks.ts).
// Functions about the caller, the namespace and the product are shadowed too: the engine's own know its user, schema and version only.
import type { DuckDBConnection } from '@duckdb/node-api';
import { release } from '../../../model/release.ts';
import { callerFunctions } from '../../caller_functions.ts';
import { quoteIdentifier, quoteLiteral } from './identifiers.ts';
import { statementLimits as limits } from './statement_limits.ts';

interface Guard {
  readonly names: readonly string[];
  readonly parameters: readonly string[];
  /** The arguments that the original gets, by the name that it has. */
  readonly call: (name: string) => string;
  /**
   * Of a function whose calls are nested in one another: a macro repeats its arguments wherever it names them, so that each level of nesting
   * would multiply the text. They are named once instead, and `call` finds them in `g`. None can be a constant to the original then.
   */
  readonly isNested?: true;
}

/** `then` unless the condition holds. Where it is a number its type is said: a parameter in it would have any. */
const unless = (condition: string, message: string, then: string) =>
  `(CASE WHEN ${condition} THEN error(${quoteLiteral(message)}) ELSE ${then} END)`;

const resized = (name: string) =>
  `${unless(`n > ${limits.listItems}`, `${name} makes at most ${limits.listItems} items`, 'n')}::BIGINT`;

/** Of numbers, or of points in time with an interval between them. */
const seriesItems = `coalesce(
  (try_cast(b::VARCHAR AS DOUBLE) - try_cast(a::VARCHAR AS DOUBLE)) / try_cast(s::VARCHAR AS DOUBLE),
  (epoch(try_cast(b::VARCHAR AS TIMESTAMPTZ)) - epoch(try_cast(a::VARCHAR AS TIMESTAMPTZ))) / epoch(try_cast(s::VARCHAR AS INTERVAL)))`;
const series = (items: string, name: string, then: string) =>
  unless(`${items} > ${limits.listItems}`, `${name} makes at most ${limits.listItems} items`, then);

const shallowJson = '__tabularium_shallow_json';

/**
 * Whether a JSON text is nested at most so deep. A regular expression with a limited depth is a finite automaton: the engine reads
 * the text once, at 300 MB/s. A text that is too short to be deep needs no look.
 */
function shallowJsonMacro(): string {
  const text = String.raw`"(?:[^"\\]|\\.)*"`;
  let nested = '';
  for (let level = 0; level < limits.jsonDepth; level++)
    nested = String.raw`[\[{](?:[^\[\]{}"]|${text}${nested === '' ? '' : `|${nested}`})*[\]}]`;
  const whole = `(?:[^\\[\\]{}"]|${text}|${nested})*`;
  return `CREATE OR REPLACE TEMP MACRO ${shallowJson}(j) AS strlen(j) <= ${2 * limits.jsonDepth} OR regexp_full_match(j, ${quoteLiteral(whole)}, 's')`;
}

const shallow = (name: string, value: string) =>
  unless(`NOT ${shallowJson}(${value})`, `${name} takes JSON of at most ${limits.jsonDepth} levels`, value);

/** Binding works the structure out, so the check may not throw by itself: the message takes the structure's place, and is no JSON. */
const structure = (name: string) =>
  `CASE WHEN strlen(s) > ${limits.jsonStructureBytes} THEN ${quoteLiteral(`(${name} takes a structure of at most ${limits.jsonStructureBytes} bytes)`)} ELSE s END`;

const mergedMax = 8;
const patches = (count: number) => Array.from({ length: count }, (_, i) => `p${i + 1}`);

const formattedMax = 16;

/**
 * A format whose fields are as wide and as exact as its text says, in few digits. Its values are named once: calls inside calls would
 * double with each level.
 */
const formatText = (name: string, escaped: string, unbounded: string) =>
  unless(
    `strlen(f) > ${limits.formatBytes} OR regexp_matches(replace(f, '${escaped}', ''), ${quoteLiteral(unbounded)})`,
    `${name} takes a format of at most ${limits.formatBytes} bytes, with widths and precisions written in it of at most ${limits.formatDigits} digits`,
    'f',
  );
const formats: Readonly<Record<string, string>> = {
  format: formatText('format', '{{', String.raw`\{[^{}]*([0-9]{${limits.formatDigits + 1}}|\{)`),
  printf: formatText('printf', '%%', String.raw`%[^%a-zA-Z]*([0-9]{${limits.formatDigits + 1}}|\*)`),
};
const formatGuards = Object.entries(formats).flatMap(([name, text]) =>
  Array.from({ length: formattedMax + 1 }, (_, count): Guard => {
    const values = Array.from({ length: count }, (_, i) => `v${i}`);
    return { names: [name], parameters: ['f', ...values], call: () => [text, ...values].join(', ') };
  }),
);

/** The product bounds the result; only where it is beyond the limit, occurrences are counted. */
const replaced = (name: string) => {
  const times = `(strlen(g.t) - strlen(system.main.replace(g.t, g.o, ''))) / nullif(strlen(g.o), 0)`;
  const tooLong = unless(
    `strlen(g.t) + ${times} * strlen(g.r) > ${limits.textBytes}`,
    `${name} makes a text of at most ${limits.textBytes} bytes`,
    'g.r',
  );
  return `g.t, g.o, CASE WHEN strlen(g.t)::DOUBLE * strlen(g.r) > ${limits.textBytes} THEN ${tooLong} ELSE g.r END`;
};
/** The text is named once: patterns and options have to be constants to be fast, and calls are nested in it. */
const replacement = (name: string) =>
  unless(
    `strlen(r) > ${limits.replacementBytes}`,
    `${name} takes a replacement of at most ${limits.replacementBytes} bytes`,
    'r',
  );
/** Checked by the text, so that a constant pattern stays one. */
const searched = (name: string) =>
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
  { names: ['list_resize', 'array_resize'], parameters: ['l', 'n'], call: (name) => `l, ${resized(name)}` },
  { names: ['list_resize', 'array_resize'], parameters: ['l', 'n', 'v'], call: (name) => `l, ${resized(name)}, v` },
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
  { names: ['replace'], parameters: ['t', 'o', 'r'], call: replaced, isNested: true },
  {
    names: ['regexp_replace'],
    parameters: ['t', 'p', 'r'],
    call: (name) => `t, p, ${replacement(name)}`,
  },
  {
    names: ['regexp_replace'],
    parameters: ['t', 'p', 'r', 'o'],
    call: (name) => `t, p, ${replacement(name)}, o`,
  },
  {
    names: ['regexp_extract_all', 'regexp_split_to_array', 'string_split_regex', 'str_split_regex'],
    parameters: ['t', 'p'],
    call: (name) => `${searched(name)}, p`,
  },
  {
    names: ['regexp_extract_all', 'regexp_split_to_array', 'string_split_regex', 'str_split_regex'],
    parameters: ['t', 'p', 'o'],
    call: (name) => `${searched(name)}, p, o`,
  },
  {
    names: ['regexp_extract_all'],
    parameters: ['t', 'p', 'i', 'o'],
    call: (name) => `${searched(name)}, p, i, o`,
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
  { names: ['range', 'generate_series'], parameters: ['b'], call: (name) => `${series('b', name, 'b')}::BIGINT` },
  {
    names: ['range', 'generate_series'],
    parameters: ['a', 'b'],
    call: (name) => `a, ${series('b::DOUBLE - a::DOUBLE', name, 'b')}`,
  },
  {
    names: ['range', 'generate_series'],
    parameters: ['a', 'b', 's'],
    call: (name) => `a, ${series(seriesItems, name, 'b')}, s`,
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
    call: (name) => `j, ${structure(name)}`,
  },
  { names: ['json_structure', 'json_pretty'], parameters: ['j'], call: (name) => shallow(name, 'j') },
  ...Array.from({ length: mergedMax - 1 }, (_, i) => patches(i + 2)).map((parameters) => ({
    names: ['json_merge_patch'],
    parameters,
    call: (name: string) => parameters.map((one) => shallow(name, one)).join(', '),
  })),
];

/** One statement for each name: the forms of a macro with different numbers of parameters are made together. */
const texts = [...new Set(guards.flatMap(({ names }) => names))].map((name) => {
  const forms = guards
    .filter(({ names }) => names.includes(name))
    .map(({ parameters, call, isNested }) => {
      const body = `system.main.${name}(${call(name)})`;
      const fields = parameters.map((one) => `${one}: ${one}`).join(', ');
      return `(${parameters.join(', ')}) AS ${isNested ? `list_transform([{${fields}}], lambda g: ${body})[1]` : body}`;
    });
  return `CREATE OR REPLACE TEMP MACRO ${name}${forms.join(', ')}`;
});

/** Without a database, the default schema is an internal one. */
const facts = [
  `CREATE OR REPLACE TEMP MACRO version() AS ${quoteLiteral(`Tabularium ${release}`)}`,
  `CREATE OR REPLACE TEMP MACRO current_schema() AS nullif(system.main.current_schema(), 'main')`,
];

const refusalOf = (name: string) =>
  `the function ${JSON.stringify(name)} is not offered in a view: its result depends on who reads the view`;
const refusals = new Map<string, string>(callerFunctions.map((name) => [refusalOf(name), name]));

/** The function that is refused where a plan calls error() with this message; undefined: the call is the statement's own. */
export const refusedBy = (message: unknown): string | undefined => refusals.get(String(message));

/**
 * Called without brackets too, where no column has the name, which only the binder knows. Without a caller, as in a view, they are
 * refused: the plan shows the call of error(), so that the analysis refuses the query.
 */
export async function answerForCaller(connection: DuckDBConnection, caller: string | undefined): Promise<void> {
  const texts = callerFunctions.map((name) => {
    const value = caller === undefined ? `error(${quoteLiteral(refusalOf(name))})::VARCHAR` : quoteLiteral(caller);
    return `CREATE OR REPLACE TEMP MACRO ${quoteIdentifier(name)}() AS ${value}`;
  });
  await connection.run(texts.join(';\n'));
}

/** To be called for every connection that binds what a caller wrote. */
export async function guardFunctions(connection: DuckDBConnection): Promise<void> {
  await connection.run([shallowJsonMacro(), ...texts, ...facts].join(';\n'));
  await answerForCaller(connection, undefined);
}
