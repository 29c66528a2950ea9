// Fields that several categories share: how a PATCH changes them (RFC 7396: null clears) and how they are shown.
import { type PropertiesPatch, propertiesMax } from '../../api/fields.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { principalNameFault } from '../../model/principal_names.ts';
import type { Properties } from '../../model/records.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';

export const dottedNames = (values: readonly string[]) => values.map((value) => JSON.stringify(value)).join(', ');

/** The patched value of an optional field: absent leaves it, null clears it. */
export function patched<T>(before: T | undefined, change: T | null | undefined): T | undefined {
  return change === undefined ? before : (change ?? undefined);
}

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

function mergedProperties(before: Properties | undefined, change: PropertiesPatch | undefined): Properties | undefined {
  if (change === undefined) return before;
  const merged = mergedMap(before ?? {}, change);
  const count = Object.keys(merged).length;
  if (count > propertiesMax)
    throw invalidParameter('/properties', 'maxProperties', `would be ${count}; at most ${propertiesMax}`);
  return merged;
}

/** A map after a merge patch (RFC 7396): null removes a member. */
export function mergedMap(before: Properties, change: PropertiesPatch): Properties {
  const merged = new Map(Object.entries(before));
  for (const [name, value] of Object.entries(change)) {
    if (value === null) merged.delete(name);
    else merged.set(name, value);
  }
  return Object.fromEntries(merged);
}

/** The spec of a create or an update, for objects with a comment and properties. */
export function describe<S extends Describable>(spec: S, change: Described): Omit<S, keyof Describable> & Describable {
  const { comment: before, properties: propertiesBefore, ...rest } = spec;
  const comment = patched(before, change.comment);
  const properties =
    change.properties === null ? undefined : mergedProperties(propertiesBefore, change.properties ?? undefined);
  return {
    ...rest,
    ...(comment === undefined ? {} : { comment }),
    ...(properties === undefined ? {} : { properties }),
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

/** Milliseconds since 1970. Throws INVALID_PARAMETER. */
export function timeOf(text: string | undefined, pointer: string): number | undefined {
  if (text === undefined) return undefined;
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw invalidParameter(pointer, 'format', 'must be a time such as 2026-01-31T00:00:00Z');
  return time;
}
