// Fields that several categories share: how a PATCH changes them and how they are shown.
import { DescribedFields, type PropertiesPatch } from '../../api/fields.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { principalNameFault } from '../../model/principal_names.ts';
import type { Properties } from '../../model/records.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { mergePatch } from '../../standard/schema/merge_patch.ts';

export const dottedNames = (values: readonly string[]) => values.map((value) => JSON.stringify(value)).join(', ');

/** Spec fields without those that are undefined. */
export function defined<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

interface Describable {
  readonly comment?: string;
  readonly properties?: Properties;
}

interface Described {
  readonly comment?: string | null | undefined;
  readonly properties?: PropertiesPatch | null | undefined;
}

/** The spec of a create or an update, for objects with a comment and properties. */
export function describe<S extends Describable>(spec: S, change: Described): Omit<S, keyof Describable> & Describable {
  const { comment, properties, ...rest } = spec;
  return {
    ...rest,
    ...mergePatch<Describable>(DescribedFields, defined({ comment, properties }), {
      comment: change.comment,
      properties: change.properties,
    }),
  };
}

export const shownDescription = (spec: Describable) => ({
  comment: spec.comment ?? null,
  properties: spec.properties ?? {},
});

/** The object that a path names. */
export function last<T extends CatalogObject>(chain: readonly T[]): T {
  const object = chain.at(-1);
  if (!object) throw new Error('the path has no object');
  return object;
}

/** Throws INVALID_NAME for names that principals cannot have. */
export function requirePrincipalName(name: string): void {
  const fault = principalNameFault(name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', fault, { name });
}

/** For a name that a statement in `sql` contains and the request has too. Throws INVALID_PARAMETER. */
export function requireSameName(category: string, stated: string | undefined, expected: string | undefined): void {
  if (stated === undefined || expected === undefined || stated === expected) return;
  const message = `names the ${category} ${JSON.stringify(stated)}, the request ${JSON.stringify(expected)}`;
  throw invalidParameter('/sql', 'name', message);
}

/** Milliseconds since 1970. Throws INVALID_PARAMETER. */
export function timeOf(text: string | undefined, pointer: string): number | undefined {
  if (text === undefined) return undefined;
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw invalidParameter(pointer, 'format', 'must be a time such as 2026-01-31T00:00:00Z');
  return time;
}
