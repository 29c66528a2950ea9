// Canonical JSON: equal values have the same text, for signatures and comparison.
import { canonicalNumber } from './parse_json.ts';

/** Members are sorted by name; numbers are serialized as usual. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member !== 'object' || member === null || Array.isArray(member) || JSON.isRawJSON(member)) return member;
    const names = Object.keys(member).sort();
    return Object.fromEntries(names.map((name) => [name, (member as Record<string, unknown>)[name]]));
  });
}

/** Yields pieces of a canonical text for hashing; equal values yield the same text. */
export function* canonicalTexts(value: unknown): Generator<string> {
  if (Array.isArray(value)) {
    yield '[';
    for (const item of value) {
      if (isFlat(item)) yield `${JSON.stringify(item)},`;
      else {
        yield* canonicalTexts(item);
        yield ',';
      }
    }
    yield ']';
  } else if (typeof value === 'object' && value !== null && !JSON.isRawJSON(value)) {
    yield '{';
    for (const name of Object.keys(value).sort()) {
      yield `${JSON.stringify(name)}:`;
      yield* canonicalTexts((value as Record<string, unknown>)[name]);
      yield ',';
    }
    yield '}';
  } else yield JSON.isRawJSON(value) ? canonicalNumber(value.rawJSON) : (JSON.stringify(value) ?? 'null');
}

/** Whether a value contains no objects, whose members would need sorting, and no numbers that exceed a double. */
function isFlat(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return Array.isArray(value) && value.every((item) => typeof item !== 'object' || item === null);
}
