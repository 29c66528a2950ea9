// Patterns for the searches of the API by name.

/** Matches names that contain a text. */
export const containsPattern = (text: string): string => `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
