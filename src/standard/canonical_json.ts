// Canonical JSON: one text for equal JSON values, to sign and to compare.

/** Members in the order of their names, numbers as they would be written. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member !== 'object' || member === null || Array.isArray(member) || JSON.isRawJSON(member)) return member;
    const names = Object.keys(member).sort();
    return Object.fromEntries(names.map((name) => [name, (member as Record<string, unknown>)[name]]));
  });
}
