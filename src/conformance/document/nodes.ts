// Values of a parsed document with their places in it, and local references. No I/O; what references outside the document mean is unknown.

export type Path = readonly (string | number)[];

export interface Node {
  readonly value: unknown;
  /** From the root of the document. */
  readonly at: Path;
}

export type Fields = Readonly<Record<string, unknown>>;

/** A chain of references longer than this is a circle. */
const referencesMax = 32;

export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {});
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Undefined: the field does not exist. */
export function child(node: Node, ...keys: Path): Node | undefined {
  let { value } = node;
  for (const key of keys) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Fields)[key];
  }
  return { value, at: [...node.at, ...keys] };
}

export const children = (node: Node): readonly (Node & { readonly key: string })[] =>
  Object.entries(fieldsOf(node.value)).map(([key, value]) => ({ key, value, at: [...node.at, key] }));

export const elements = (node: Node): readonly Node[] =>
  listOf(node.value).map((value, index) => ({ value, at: [...node.at, index] }));

/** The inverse of `pointerOf`, without the leading `#`. */
const pathOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => decoded(part).replaceAll('~1', '/').replaceAll('~0', '~'));

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const pointerOf = (path: Path): string =>
  `#${path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')}`;

/**
 * Follows the references of a node within the document.
 * @returns undefined if a reference leaves the document, leads nowhere or round in a circle.
 */
export function resolve(root: Node, node: Node | undefined): Node | undefined {
  let found = node;
  for (let count = 0; found && isObject(found.value) && typeof found.value.$ref === 'string'; count++) {
    const reference = found.value.$ref;
    if (count > referencesMax || !(reference === '#' || reference.startsWith('#/'))) return undefined;
    found = child(root, ...pathOf(reference));
  }
  return found;
}

/** The references that leave the document, each once. */
export function outsideReferences({ value: root }: Node): string[] {
  const found = new Set<string>();
  const visited = new Set<unknown>();
  const pending: unknown[] = [root];
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    if (typeof value !== 'object' || value === null || visited.has(value)) continue;
    visited.add(value);
    const { $ref: reference } = value as Fields;
    if (typeof reference === 'string' && !reference.startsWith('#')) found.add(reference);
    pending.push(...Object.values(value).filter((each) => typeof each === 'object' && each !== null));
  }
  return [...found];
}
