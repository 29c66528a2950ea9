// The names that declared objects still have on the server: a file can say `renamedFrom` of an object and of those above it.
import { objectUri } from '../files/canonical_uri.ts';
import type { Declaration } from '../files/declaration.ts';
import type { Kind } from '../files/kinds.ts';

const keyOf = (path: readonly string[]): string => JSON.stringify(path);

export class PresentNames {
  readonly #names = new Map<string, string>();
  readonly #uris: { readonly from: string; readonly to: string }[] = [];

  /** The declared object still has another name. */
  renamed({ kind, path }: Declaration, present: string): void {
    this.#names.set(keyOf(path), present);
    const before = [...path.slice(0, -1), present];
    this.#uris.push({ from: objectUri(kind, this.pathOf(before)), to: objectUri(kind, path) });
  }

  isRenamed({ path }: Pick<Declaration, 'path'>): boolean {
    return path.some((_name, i) => this.#names.has(keyOf(path.slice(0, i + 1))));
  }

  /** The path with the names that the objects have now. */
  pathOf(path: readonly string[]): readonly string[] {
    return path.map((name, i) => this.#names.get(keyOf(path.slice(0, i + 1))) ?? name);
  }

  uriOf(kind: Kind, path: readonly string[]): string {
    return objectUri(kind, this.pathOf(path));
  }

  /** The URI that an object will have, from the one that it has. */
  futureUri(uri: string): string {
    const moved = this.#uris
      .filter(({ from }) => uri === from || uri.startsWith(`${from}/`))
      .sort((a, b) => b.from.length - a.from.length)[0];
    return moved ? `${moved.to}${uri.slice(moved.from.length)}` : uri;
  }
}
