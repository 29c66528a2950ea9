// Converts rows of the store to objects of the catalog. Parsed specs are cached, because parsing costs more than reading. The cache is
// keyed by id and version, so an entry can be unused but never stale.
import type { Selectable } from 'kysely';
import type { ObjectVersion } from '../model/principal.ts';
import type { ObjectsTable } from '../store/schema.ts';
import type { CatalogObject } from './object.ts';

export type ObjectRow = Omit<Selectable<ObjectsTable>, 'folded_name' | 'folded_comment'>;

export const objectColumns = [
  'id',
  'category',
  'parent_id',
  'name',
  'state',
  'state_reason',
  'owner',
  'version',
  'created_at',
  'created_by',
  'updated_at',
  'updated_by',
  'spec',
] as const satisfies readonly (keyof ObjectRow)[];

/** The columns whose texts can be large. */
export const textColumns = ['spec', 'folded_comment'] as const;

/** Maximum characters of JSON text whose parsed form is cached; it takes several times as much memory. */
const specCharactersMax = 4_000_000;
const specCharactersEachMax = 64_000;

/** As RFC 3339 with milliseconds and `Z`. */
export function toRfc3339(ms: number): string {
  return new Date(ms).toISOString();
}

export class SpecCache {
  readonly #specs = new Map<
    string,
    { readonly version: number; readonly characters: number; readonly spec: unknown }
  >();
  #characters = 0;

  /** Parses the spec on first access: callers that only resolve a path, or serve a cached record, never need it. */
  toObject(row: ObjectRow): CatalogObject {
    let spec: { readonly value: unknown } | undefined;
    const parsed = (): unknown => {
      spec ??= { value: this.#spec(row) };
      return spec.value;
    };
    return {
      id: row.id,
      category: row.category,
      parentId: row.parent_id,
      name: row.name,
      state: row.state,
      stateReason: row.state === 'blocked' ? row.state_reason : null,
      get spec() {
        return parsed();
      },
      owner: row.owner,
      version: row.version,
      createdAt: toRfc3339(row.created_at),
      createdBy: row.created_by,
      updatedAt: toRfc3339(row.updated_at),
      updatedBy: row.updated_by,
    };
  }

  #spec(row: ObjectRow): unknown {
    const cached = this.#specs.get(row.id);
    if (cached?.version === row.version) return cached.spec;
    const spec = freezeDeep(JSON.parse(row.spec));
    if (cached) {
      this.#specs.delete(row.id);
      this.#characters -= cached.characters;
    }
    const characters = row.spec.length;
    if (characters > specCharactersEachMax) return spec;
    this.#specs.set(row.id, { version: row.version, characters, spec });
    this.#characters += characters;
    for (const [id, oldest] of this.#specs) {
      if (this.#characters <= specCharactersMax) break;
      this.#specs.delete(id);
      this.#characters -= oldest.characters;
    }
    return spec;
  }
}

function freezeDeep(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  for (const inner of Object.values(value)) freezeDeep(inner);
  return Object.freeze(value);
}

/** The comment in lower case, stored in a column of its own so that comments can be searched. */
export function foldedComment(spec: unknown): string | null {
  const comment = (spec as { readonly comment?: unknown } | null)?.comment;
  return typeof comment === 'string' && comment !== '' ? foldComment(comment) : null;
}

/** PostgreSQL has no text with a NUL; in the comment of the spec, which is JSON, it is escaped. */
export const foldComment = (comment: string): string => comment.toLowerCase().replaceAll('\0', '\u0001');

export const versionOfRow = ({ id: objectId, category, name, version }: ObjectRow): ObjectVersion => ({
  objectId,
  category,
  name,
  version,
});

export function isVisible(row: { readonly state: string }): boolean {
  return row.state === 'ready' || row.state === 'altering' || row.state === 'blocked';
}
