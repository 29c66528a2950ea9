// The known name that a misspelled one is nearest to, for messages.

/** The number of insertions, deletions and replacements of characters. */
function distance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      current.push(Math.min(replaced, (previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}

const nameCharactersMax = 64;

/** `; did you mean "comment"?`, or what there is to choose from. */
export function suggestion(name: string, known: readonly string[]): string {
  const nearest = known
    .map((each) => ({ each, far: distance(name.slice(0, nameCharactersMax).toLowerCase(), each.toLowerCase()) }))
    .sort((a, b) => a.far - b.far)[0];
  if (nearest && nearest.far <= Math.max(1, Math.floor(nearest.each.length / 2.5)))
    return `; did you mean ${JSON.stringify(nearest.each)}?`;
  return `; it can be: ${known.join(', ')}`;
}
