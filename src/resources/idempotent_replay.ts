// The record of an object or a task that an earlier attempt of a request created or changed: for a repeated request whose first
// response was lost in a crash.
import type { RetainedStep } from '../access/idempotency_keys.ts';
import type { CurrentRecord, RecordIdentity } from '../http/idempotency/keyed_calls.ts';
import { type Category, type Endpoint, inputOfGet, type PathParameters, type Segment } from '../standard/endpoint.ts';
import { Failure } from '../standard/failure.ts';
import { parseJson } from '../standard/json/parse_json.ts';
import { segment, uriOf } from '../standard/paths.ts';
import { ReadyRecord } from '../standard/record_body.ts';
import type { Context } from './records/handler_context.ts';
import { accepted } from './records/task_record.ts';

/** Undefined if the category has no such object (any more). */
export async function recordOf(
  { id, category: categoryName, name }: RecordIdentity,
  categories: readonly Category<Context>[],
  context: Context,
): Promise<CurrentRecord | undefined> {
  const task = await context.tasks.get(id);
  if (task) return accepted(task, context);
  const categoryOf = (name: string) => categories.find((candidate) => candidate.name === name);
  const chain = await context.catalog.findChain(id);
  if (chain.length === 0) return memberOf(categoryOf(categoryName), id, context);
  const category = categoryOf(categoryName);
  const segments = chain.map((object) => segment(object.category, object.name));
  if (chain.at(-1)?.category !== categoryName) {
    if (category?.parent !== chain.at(-1)?.category || name === undefined) return undefined;
    segments.push(segment(categoryName, name));
  }
  const get = category?.endpoints.find(({ verb }) => verb === 'get');
  if (!get) return undefined;
  const path = Object.fromEntries(
    segments.map((segment) => [categoryOf(segment.category)?.parameter ?? segment.category, segment.name]),
  );
  return shownBy(get, path, segments, context);
}

async function shownBy(
  get: Endpoint<Context>,
  path: PathParameters,
  segments: readonly Segment[],
  context: Context,
): Promise<CurrentRecord> {
  const outcome = await get.handle(inputOfGet(path, segments), context);
  if (outcome.outcome !== 'found') throw new Error(`a GET answered with ${outcome.outcome}`);
  const { record } = outcome;
  const shown = record instanceof ReadyRecord ? parseRecord(record.recordText) : record;
  return { outcome: 'found', record: shown, uri: uriOf(context.call.version, segments) };
}

function parseRecord(text: string): object {
  const record = parseJson(text);
  if (typeof record !== 'object' || record === null) throw new Error('a record is no object');
  return record;
}

/** The number of rows that an engine changed for an earlier attempt of a keyed request; undefined if it applied nothing. */
export async function rowsOfStep(
  { step, warehouse, catalogId }: RetainedStep,
  { catalog, warehouses }: Pick<Context, 'catalog' | 'warehouses'>,
): Promise<number | undefined> {
  const root = await catalog.byId(catalogId);
  // Without the catalog the engine's record of the step is inaccessible, and so is everything that the request could have changed.
  if (!root) return undefined;
  return (await warehouses.use(warehouse)).rowsLoadedByStep({ id: root.id, name: root.name }, step);
}

/** For a top-level collection whose members are not objects of the catalog and are identified by id. */
async function memberOf(
  category: Category<Context> | undefined,
  id: string,
  context: Context,
): Promise<CurrentRecord | undefined> {
  const get = category?.endpoints.find(({ verb }) => verb === 'get');
  if (!get || category?.idField === undefined || category.parent !== undefined) return undefined;
  const segments = [segment(category.name, id)];
  const path = { [category.parameter]: id };
  try {
    return await shownBy(get, path, segments, context);
  } catch (error) {
    if (error instanceof Failure && error.code === 'OBJECT_NOT_FOUND') return undefined;
    throw error;
  }
}
