// Valid names of objects (rest-standard B1), and how names are compared. Independent of categories; engines reject their reserved words.

export const objectNameCharactersMax = 128;

/**
 * Returns why a name is invalid, or undefined if it is valid.
 * A name is 1 to 128 Unicode characters (code points), without control characters or lone surrogates, and not `.` or `..`.
 */
export function nameFault(name: string): string | undefined {
  if (name === '') return 'a name must have at least 1 character';
  if (name === '.' || name === '..') return 'a name must not be "." or ".."';
  if (!name.isWellFormed()) return 'a name must be well-formed Unicode';
  // A code point is one or two code units, so that the code points of a text of megabytes need not be counted.
  const isLong = name.length > 2 * objectNameCharactersMax;
  if (isLong || (name.length > objectNameCharactersMax && [...name].length > objectNameCharactersMax)) {
    return `a name can have at most ${objectNameCharactersMax} characters`;
  }
  if (/\p{Cc}/u.test(name)) return 'a name must not contain control characters';
  return undefined;
}

/**
 * The form in which siblings must differ. SQL folds case (engines fold ASCII and more), so a query cannot distinguish two names with the
 * same folded form, and the second is refused.
 */
export function foldName(name: string): string {
  return name.toLowerCase();
}

/** The name in a SQL text: quoted as the SQL standard says, so that it may contain anything. */
export const sqlIdentifier = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** Compares by code points, as the store does; `<` of JavaScript compares UTF-16 code units, in which 😀 comes before ｡. */
export function compareNames(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    if (a.charCodeAt(i) === b.charCodeAt(i)) continue;
    // If only the second half of a surrogate pair differs, the halves have the order of the pairs.
    return (a.codePointAt(i) as number) - (b.codePointAt(i) as number);
  }
  return a.length - b.length;
}
