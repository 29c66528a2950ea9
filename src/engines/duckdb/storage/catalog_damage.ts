// Recognizes DuckDB's errors about damaged catalog files, and describes the damage without the path of the file.

const patterns: readonly (readonly [RegExp, (found: RegExpExecArray) => string])[] = [
  [
    /Corrupt WAL file: entry at byte position (\d+)/,
    ([, byte]) => `its write-ahead log is damaged at byte ${byte} (wrong checksum)`,
  ],
  [/Failure while replaying WAL file/, () => 'its write-ahead log cannot be replayed'],
  [
    /Corrupt database file: computed checksum .* in block at location (\d+)/s,
    ([, byte]) => `the block at byte ${byte} of its file is damaged (wrong checksum)`,
  ],
  [/not a valid DuckDB database file/, () => 'its file is not a database file'],
  [
    /version number (\d+), but we can only read versions between (\d+) and (\d+)/,
    ([, written, oldest, newest]) =>
      `its file was written by a newer release of DuckDB in format ${written}, and this release reads the formats ${oldest} to ` +
      `${newest}: start the release of tabularium that wrote it, or a newer one`,
  ],
  [
    /Could not read enough bytes from file .* from location (\d+)/s,
    ([, byte]) => `its file ends early: nothing can be read at byte ${byte}`,
  ],
  [/Cannot open file .*: ([^:"]+)$/s, ([, why = '']) => `its file cannot be opened (${why.trim().toLowerCase()})`],
  [/Failed to delete all rows from index/, () => 'an index in its file does not match the rows of its table'],
  [/Corrupt database file|Failed to deserialize|corrupt/i, () => 'the contents of its file are inconsistent'],
];

/** After a failed checkpoint, DuckDB refuses all work on that database until it is attached again, and repeats the cause. */
const checkpointFailed =
  /^IO Error: .*?(?:Checkpoint failed for database|Database ").*? has been invalidated.*?Original error: (.*)$/s;

/** Why the checkpoint of a database failed; undefined if the error is not about one. */
export function checkpointFault(message: string): string | undefined {
  return checkpointFailed.exec(message)?.[1];
}

/** The damage in an error while catalogs are used. Errors may be about other files then: only those of catalogs count. */
export function damageInError(message: string): string | undefined {
  const fault = checkpointFault(message);
  if (fault !== undefined) return damageInError(`IO Error: ${fault}`);
  // After a fatal error every statement fails with it, whatever its catalog.
  if (/has been invalidated/.test(message)) return undefined;
  return /Corrupt database file: computed checksum|Failed to delete all rows from index|Could not read enough bytes from file "[^"]*\.duckdb"/s.test(
    message,
  )
    ? damageIn(message)
    : undefined;
}

/** The damage in an error while a file is opened, as a sentence for people; undefined if the error is about something else. */
export function damageIn(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : String(error);
  if (!/^(?:IO|Serialization|Internal|INTERNAL|FATAL) Error/i.test(message)) return undefined;
  for (const [pattern, reason] of patterns) {
    const found = pattern.exec(message);
    if (found) return reason(found);
  }
  return undefined;
}
