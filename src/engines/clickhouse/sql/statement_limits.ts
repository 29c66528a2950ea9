// The limits of a statement's text and of its analysis. Beyond them a statement is refused before a server sees it, or the server refuses it.

export const statementLimits = {
  characters: 1_048_576,
  /** So that reading a text never holds the event loop for long. */
  tokens: 100_000,
  /** Every bracket takes several levels of the server's parser, of which it has 1,000. */
  bracketDepth: 200,
  /** Lines of a query tree: the server refuses larger ones. */
  treeLines: 400_000,
  treeBytes: 33_554_432,
  /** Views under views. */
  viewDepth: 32,
  namedTables: 2_000,
  defaultCharacters: 16_384,
  columns: 10_000,
} as const;

/** Of one call that analyzes. */
export const analysisTimeoutMs = 10_000;
