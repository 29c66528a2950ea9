// A text in which parts were replaced, and the way back from a position in it to the position in the original.

export interface Replacement {
  /** The range in the original that is replaced; ranges inside of another are ignored. */
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

export interface RewrittenText {
  readonly text: string;
  /** @returns the offset in the original; within a replacement, its start. */
  originalOffset(offset: number): number;
}

/** Replaces parts of `sql` between `start` and `end`. White space and comments stay as they are. */
export function rewriteText(
  sql: string,
  replacements: readonly Replacement[],
  [start, end]: readonly [number, number] = [0, sql.length],
): RewrittenText {
  const sorted = replacements
    .filter((replacement) => replacement.start >= start && replacement.end <= end)
    .sort((a, b) => a.start - b.start || a.end - b.end);
  const chunks: string[] = [];
  /** Where each unchanged part begins, in the result and in the original, and its length. */
  const kept: { readonly at: number; readonly from: number; readonly length: number }[] = [];
  let copiedTo = start;
  let length = 0;
  const keep = (to: number) => {
    kept.push({ at: length, from: copiedTo, length: to - copiedTo });
    chunks.push(sql.slice(copiedTo, to));
    length += to - copiedTo;
  };
  for (const replacement of sorted) {
    // A comment between the parts of a name is replaced with the name.
    if (replacement.start < copiedTo) continue;
    keep(replacement.start);
    chunks.push(replacement.text);
    length += replacement.text.length;
    copiedTo = replacement.end;
  }
  keep(end);
  return {
    text: chunks.join(''),
    originalOffset(offset) {
      const before = kept.findLast(({ at }) => at <= offset);
      if (!before) return start;
      return before.from + Math.min(offset - before.at, before.length);
    },
  };
}

/**
 * Texts one after another. A position in a part that is not of the original is that of the end of the part before it that is, or of the
 * first one.
 */
export function joinTexts(parts: readonly (string | RewrittenText)[]): RewrittenText {
  let length = 0;
  const placed = parts.map((part) => {
    const at = length;
    length += typeof part === 'string' ? part.length : part.text.length;
    return { part, at };
  });
  return {
    text: parts.map((part) => (typeof part === 'string' ? part : part.text)).join(''),
    originalOffset(offset) {
      const index = placed.findLastIndex(({ at }) => at <= offset);
      const { part, at } = placed[Math.max(0, index)] ?? { part: '', at: 0 };
      if (typeof part !== 'string') return part.originalOffset(offset - at);
      const before = parts.slice(0, Math.max(0, index)).findLast((other) => typeof other !== 'string');
      if (typeof before === 'object') return before.originalOffset(before.text.length);
      const next = parts.slice(index + 1).find((other) => typeof other !== 'string');
      return typeof next === 'object' ? next.originalOffset(0) : 0;
    },
  };
}
