// Limits of values that handlers check, with messages of their own, so that validation by the schema does not: only the OpenAPI document
// states them.

/** The keyword of a schema whose value is merged into the schema of the document. */
export const documentedLimits = 'x-documented-limits';

/** An object that must have exactly one of these fields. */
export const exactlyOneOf = (...fields: readonly string[]) => ({
  [documentedLimits]: { oneOf: fields.map((field) => ({ required: [field] })) },
});

/** An object that must not have both fields. */
export const notTogether = (field: string, other: string) => ({
  [documentedLimits]: { dependentSchemas: { [field]: { properties: { [other]: false } } } },
});

/** Fields of an object that require others, by name. */
export const requiring = (others: Readonly<Record<string, readonly string[]>>) => ({
  [documentedLimits]: { dependentRequired: others },
});

/** A string that is a URL of one of these schemes. */
export const httpUrl = { [documentedLimits]: { pattern: '^https?://' } } as const;
