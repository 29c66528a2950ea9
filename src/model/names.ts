// What an object may be called (rest-standard B1), and how names are compared. Knows no category; reserved words of an
// engine are the engine's to refuse.

export const objectNameCharactersMax = 128;

/**
 * Says why a name is not acceptable, or undefined where it is.
 * A name is 1 to 128 Unicode characters (code points), without control characters or lone surrogates, and not `.` or `..`.
 */
export function nameFault(name: string): string | undefined {
  if (name === '') return 'a name has at least 1 character';
  if (name === '.' || name === '..') return 'a name is not "." or ".."';
  if (!name.isWellFormed()) return 'a name is well-formed Unicode';
  // A character is one or two code units; those of a text of megabytes are not counted.
  const isLong = name.length > 2 * objectNameCharactersMax;
  if (isLong || (name.length > objectNameCharactersMax && [...name].length > objectNameCharactersMax)) {
    return `a name has at most ${objectNameCharactersMax} characters`;
  }
  if (/\p{Cc}/u.test(name)) return 'a name has no control characters';
  return undefined;
}

/**
 * The form in which siblings must differ. SQL folds case (engines fold ASCII and more), so two names with the same folded
 * form are one name to a query, and the second is refused.
 */
export function foldName(name: string): string {
  return name.toLowerCase();
}

/** By code points, which is how the store orders names; `<` of JavaScript compares UTF-16, in which 😀 comes before ｡. */
export function compareNames(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    if (a.charCodeAt(i) === b.charCodeAt(i)) continue;
    // Where only the second half of a pair differs, the halves order as the pairs do.
    return (a.codePointAt(i) as number) - (b.codePointAt(i) as number);
  }
  return a.length - b.length;
}
