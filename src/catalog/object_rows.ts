// Between rows of the store and the objects that the catalog hands out. Parsed specs are kept: parsing one costs more than
// reading it. They are looked up by id and version, so what is kept can be spare but never stale.
import type { Selectable } from 'kysely';
import type { Basis } from '../model/principal.ts';
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

/** Characters of JSON text whose parsed form is kept; in memory it is several times that. */
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

  /** The spec is parsed when it is first asked for: who only follows a path, or serves what is kept serialised, does not. */
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
    const kept = this.#specs.get(row.id);
    if (kept?.version === row.version) return kept.spec;
    const spec = freezeDeep(JSON.parse(row.spec));
    if (kept) {
      this.#specs.delete(row.id);
      this.#characters -= kept.characters;
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

/** What is kept beside the spec so that comments can be searched. */
export function foldedComment(spec: unknown): string | null {
  const comment = (spec as { readonly comment?: unknown } | null)?.comment;
  return typeof comment === 'string' && comment !== '' ? comment.toLowerCase() : null;
}

export const basisOfRow = ({ id: objectId, category, name, version }: ObjectRow): Basis => ({
  objectId,
  category,
  name,
  version,
});
