// The limits of a statement: one table with their units. The checks of the text (statement_shape.ts), of the plan (plan.ts) and of
// single calls (guarded_functions.ts) use it, and scripts/docs.ts generates docs/statement_limits.md from it.

interface Limit {
  readonly max: number;
  readonly unit: string;
  readonly what: string;
  /** The measured behavior of the engine beyond the limit. */
  readonly why: string;
}

const define = <const K extends string>(limits: Record<K, Limit>): Record<K, Limit> => limits;

/** Each limit is above the needs of statements that people write, and below what the engine was measured to survive. */
export const limitTable = define({
  bracketDepth: {
    max: 1_000,
    unit: 'brackets',
    what: 'Nesting depth of brackets of any kind.',
    why: 'The engine refuses deeper expressions itself, after up to a second.',
  },
  parameters: {
    max: 10_000,
    unit: 'parameters',
    what: 'Parameters of a statement; `$1` counts as often as it is written.',
    why: '60,000 take 17 s to bind.',
  },
  selectColumns: {
    max: 10_000,
    unit: 'columns',
    what: 'Columns of one SELECT, with `*` expanded, and of a file that is loaded: as many as a table may have.',
    why: '50,000 take more than 10 s before the first row.',
  },
  valuesRows: {
    max: 100_000,
    unit: 'rows',
    what: 'Rows of one VALUES list.',
    why: '200,000 take 5 s to bind.',
  },
  commonTables: {
    max: 1_000,
    unit: 'expressions',
    what: 'Common table expressions of a statement.',
    why: 'Each is bound again where it is used.',
  },
  joins: {
    max: 500,
    unit: 'joins',
    what: 'JOIN clauses of a statement.',
    why: 'Planning the order of joins takes more than linear time.',
  },
  plannedTables: {
    max: 2_000,
    unit: 'tables',
    what: 'Tables and table functions of the plan, with views expanded.',
    why: 'As for `joins`.',
  },
  lambdaDepth: {
    max: 10,
    unit: 'lambdas',
    what: 'Nesting depth of lambdas and comprehensions.',
    why: 'Each additional one doubles the time to bind; 64 never end.',
  },
  arrowsInChain: {
    max: 10,
    unit: 'arrows',
    what: 'Arrows (`->`) in a row.',
    why: 'Each additional one doubles the time to bind; 20 take 10 s.',
  },
  commentDepth: {
    max: 100,
    unit: 'comments',
    what: 'Nesting depth of comments.',
    why: 'The time grows quadratically; 10,000 take 5 s.',
  },
  jsonDepth: {
    max: 100,
    unit: 'levels',
    what: 'Nesting depth of the JSON arguments of `json_structure`, `json_group_structure`, `json_merge_patch` and `json_pretty`.',
    why: '20,000 overflow the stack and end the process.',
  },
  jsonStructureBytes: {
    max: 16_384,
    unit: 'bytes',
    what: 'Structure argument of `from_json` and `json_transform`.',
    why: '40,000 levels overflow the stack and end the process.',
  },
  paddedCharacters: {
    max: 16_777_216,
    unit: 'characters',
    what: 'Length to which `lpad` and `rpad` pad.',
    why: '2,000,000,000 take more than 10 s and ignore interrupts.',
  },
  formatBytes: {
    max: 16_384,
    unit: 'bytes',
    what: 'Format argument of `format` and `printf`, with at most 16 values.',
    why: 'Each of its fields may produce thousands of characters, or repeat a value.',
  },
  formatDigits: {
    max: 4,
    unit: 'digits',
    what: 'Digits of a width or precision in a format of `format` or `printf`. It is written in the format, not taken from a value.',
    why: 'A width of 2,000,000,000 takes more than 10 s and ignores interrupts, and as many bytes.',
  },
  textBytes: {
    max: 1_073_741_824,
    unit: 'bytes',
    what: 'Result of one call of `repeat` or `replace`, if it is text.',
    why: 'Replacing every second byte of 4 MB by 4 kB takes all available memory and ignores interrupts.',
  },
  repeatedListBytes: {
    max: 67_108_864,
    unit: 'bytes',
    what: 'Result of `repeat` (of a list), `list_select` or `array_select`, measured as text.',
    why: 'One call creates 100,000,000 items, or copies a long text as often, and ignores interrupts.',
  },
  replacementBytes: {
    max: 4_096,
    unit: 'bytes',
    what: 'Replacement argument of `regexp_replace`.',
    why: 'It may be inserted for each byte of the text, and may repeat parts of the text any number of times.',
  },
  searchedBytes: {
    max: 1_073_741_824,
    unit: 'bytes × bytes',
    what: 'Length of the text multiplied by that of the pattern, in `regexp_extract_all`, `regexp_split_to_array`, `string_split_regex` and `str_split_regex`.',
    why: 'A pattern of 2 kB in a text of 4 MB takes more than 8 s and ignores interrupts.',
  },
  timeZoneBytes: {
    max: 256,
    unit: 'bytes',
    what: 'The name of a time zone, also in `AT TIME ZONE`.',
    why: 'An unknown name is compared with all known names; one of 4 MB takes more than 8 s and ignores interrupts.',
  },
  bitstringBits: {
    max: 134_217_728,
    unit: 'bits',
    what: 'Result of `bitstring`.',
    why: '2,000,000,000 take more than 10 s and ignore interrupts.',
  },
  listItems: {
    max: 16_777_216,
    unit: 'items',
    what: 'Items of the result of `list_resize`, `array_resize`, `range` or `generate_series`. (In FROM, `range` and `generate_series` return rows, not lists, and have no limit.)',
    why: '100,000,000 take more than 8 s and ignore interrupts.',
  },
  comparedBytes: {
    max: 25_000_000,
    unit: 'bytes × bytes',
    what: 'Product of the lengths of the two texts that `levenshtein`, `editdist3`, `damerau_levenshtein`, `jaro_similarity` and `jaro_winkler_similarity` compare.',
    why: '`damerau_levenshtein` takes 8 bytes of memory for each, and 2,000,000 × 2,000,000 take more than 10 s.',
  },
});

export type StatementLimit = keyof typeof limitTable;

/** The maximums by name. */
export const statementLimits = Object.fromEntries(
  Object.entries(limitTable).map(([name, { max }]) => [name, max]),
) as Readonly<Record<StatementLimit, number>>;
