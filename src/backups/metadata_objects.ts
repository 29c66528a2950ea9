// Objects of a database that have no part in an engine, as backups contain them: their category, name and spec.
import type { NewChild } from '../catalog/object.ts';
import type { TObject } from '../standard/type.ts';
import { validation } from '../standard/validation.ts';
import { type BackedUpObject, unusableBackup } from './manifest.ts';

export interface MetadataCategory {
  readonly name: string;
  readonly spec: TObject;
}

/** Throws DATA_INVALID if the manifest, which may not have been written by this server, describes no object of the category. */
export function restoredObject(
  { category, name, spec }: BackedUpObject,
  categories: readonly MetadataCategory[],
): NewChild {
  const known = categories.find((candidate) => candidate.name === category);
  if (!known) throw unusableBackup(`it contains ${JSON.stringify(category)}, which this release does not have`);
  if (!validation().Compile(known.spec).Check(spec))
    throw unusableBackup(`the definition of ${JSON.stringify(name)} in ${category} is invalid`);
  return { category, name, spec };
}
