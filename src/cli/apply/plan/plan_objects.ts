// Plans objects that are compared field by field: catalogs, databases, roles and schedules.
import { collectionUri, objectUri } from '../files/canonical_uri.ts';
import { type Declaration, type Fields, titleOf } from '../files/declaration.ts';
import { changedFields, newFields, valueText } from './field_changes.ts';
import type { Difference, Expected, Phase, PlanBuilder } from './plan.ts';
import type { PresentNames } from './present_names.ts';
import type { ReadRecord, ServerReader } from './server_reader.ts';

export interface PlanContext {
  readonly reader: ServerReader;
  readonly builder: PlanBuilder;
  readonly names: PresentNames;
  readonly prune: boolean;
}

/** @returns the record that the object has now; undefined if it will be created. */
export async function planObject(
  declaration: Declaration,
  phase: { readonly change: Phase; readonly rename: Phase },
  context: PlanContext,
): Promise<ReadRecord | undefined> {
  const { reader, names } = context;
  const { kind, path, fields, renamedFrom } = declaration;
  let read = await reader.get(names.uriOf(kind, path));
  if (!read && renamedFrom !== undefined) {
    read = await reader.get(names.uriOf(kind, [...path.slice(0, -1), renamedFrom]));
    if (read) planRename(declaration, renamedFrom, read.record, phase.rename, context);
  }
  if (!read) {
    planCreate(declaration, fields, phase.change, context);
    return undefined;
  }
  planChange(declaration, read.record, phase.change, context);
  return read;
}

export function planCreate(
  declaration: Declaration,
  fields: Fields,
  phase: Phase,
  { builder }: PlanContext,
  differences: readonly Difference[] = newFields(fields),
): void {
  const { kind, path, place } = declaration;
  const named = { ...fields, name: path.at(-1) };
  builder.add({
    action: 'create',
    phase,
    title: titleOf(declaration),
    place,
    differences,
    category: kind.category,
    operation: 'create',
    uri: collectionUri(kind, path),
    fields: named,
  });
}

export function planRename(
  declaration: Declaration,
  present: string,
  record: Expected['record'],
  phase: Phase,
  { builder, names }: PlanContext,
): void {
  const { kind, path, place } = declaration;
  const before = [...path.slice(0, -1), present];
  const key = objectUri(kind, path);
  builder.add({
    action: 'rename',
    phase,
    title: titleOf({ kind, path: before }),
    place,
    differences: [{ sign: '~', field: 'name', from: valueText('name', present), to: valueText('name', path.at(-1)) }],
    category: kind.category,
    operation: 'rename',
    uri: objectUri(kind, before),
    fields: { newName: path.at(-1) },
    expected: { key, uri: objectUri(kind, before), record },
  });
  names.renamed(declaration, present);
}

function planChange(declaration: Declaration, record: Expected['record'], phase: Phase, context: PlanContext): void {
  const { kind, fields } = declaration;
  const { patch, differences, fixed } = changedFields(kind, fields, record);
  const title = titleOf(declaration);
  for (const { field, from, to } of fixed)
    context.builder.refuse(declaration, title, `${field} cannot be changed from ${from} to ${to}${adviceFor(field)}`);
  planUpdate(declaration, { patch, differences, record, phase }, context);
}

/** A step that changes the fields of `patch`; none if nothing differs. */
export function planUpdate(
  declaration: Declaration,
  update: {
    readonly patch: Fields;
    readonly differences: readonly Difference[];
    readonly record: Expected['record'];
    readonly phase: Phase;
  },
  { builder }: PlanContext,
): void {
  const { kind, path, place } = declaration;
  const { patch, differences, record, phase } = update;
  if (differences.length === 0) return;
  const uri = objectUri(kind, path);
  builder.add({
    action: 'change',
    phase,
    title: titleOf(declaration),
    place,
    differences,
    category: kind.category,
    operation: 'update',
    uri,
    fields: patch,
    expected: { key: uri, uri, record },
  });
}

const adviceFor = (field: string): string =>
  field === 'warehouse'
    ? '; move the catalog with `tabularium catalogs move`, or correct the file'
    : '; correct the file';
