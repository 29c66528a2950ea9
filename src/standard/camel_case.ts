// Names in snake_case → camelCase: the list field of a category (rest-standard A3, B3), and names in the client.

export type CamelCase<N extends string> = N extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : N;

export const camelCase = <const N extends string>(name: N): CamelCase<N> =>
  name.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase()) as CamelCase<N>;

/** Reverses `camelCase`. */
export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
