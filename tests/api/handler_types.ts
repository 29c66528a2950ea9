// Handlers of a declared category that must compile, and some that must not. Checked by the compiler only; nothing here runs.
import { action, category, create, get, list, remove, update } from '../../src/api/declare.ts';
import { noFields } from '../../src/api/fields.ts';
import type { Handlers } from '../../src/api/handlers.ts';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { Type } from '../../src/standard/type.ts';

const permission = { privilege: 'read', on: 'object' } as const;
const texts = { singular: '', title: '', doc: '', example: {} };
const shelves = category({
  ...texts,
  name: 'shelves',
  parameter: 'shelf',
  record: Type.Object({ name: Type.String() }),
  endpoints: {},
});
export const books = category({
  ...texts,
  name: 'books',
  parameter: 'book',
  parent: shelves,
  record: Type.Object({ name: Type.String(), pages: Type.Integer() }),
  endpoints: {
    list: list({ summary: '', permission }),
    get: get({ summary: '', permission }),
    create: create({ summary: '', permission, body: Type.Object({ pages: Type.Integer() }) }),
    update: update({ summary: '', permission, body: Type.Object({ pages: Type.Optional(Type.Integer()) }) }),
    delete: remove({ summary: '', permission }),
    lend: action('object', {
      summary: '',
      permission,
      body: Type.Object({ to: Type.String() }),
      result: Type.Object({ until: Type.String() }),
    }),
    bind: action('object', { summary: '', permission, body: noFields, task: 'optimize_table' }),
  },
});

type Books = Handlers<typeof books, object>;
const book = { name: 'a', pages: 1 };
export const good: Books = {
  list: async ({ path }) => ({ outcome: 'listed', items: [{ ...book, name: path.shelf }] }),
  get: async ({ path, segments: [shelf, { category }] }) => {
    const known: 'books' = category;
    return { outcome: 'found', record: { ...book, name: `${shelf.name} ${path.book} ${known}` } };
  },
  create: async ({ body }) => ({ outcome: 'created', record: { ...body }, created: true, uri: '' }),
  update: async ({ body: { pages = 1 } }) => ({ outcome: 'updated', record: { ...book, pages } }),
  delete: async () => ({ outcome: 'deleted', deleted: true }),
  lend: async ({ body }) => ({ outcome: 'done', result: { until: body.to } }),
  bind: async () => ({ outcome: 'accepted', task: { type: 'optimize_table' }, uri: '' }),
};
export const invalidHandlers: Books = {
  // @ts-expect-error an item that is no record
  list: async () => ({ outcome: 'listed', items: [{ name: 'a' }] }),
  // @ts-expect-error the object has no such parameter in its path
  get: async ({ path }) => ({ outcome: 'found', record: { ...book, name: path.table } }),
  // @ts-expect-error the body has no such field
  create: async ({ body }) => ({ outcome: 'created', record: { ...book, name: body.title }, created: true, uri: '' }),
  // @ts-expect-error the outcome of another verb
  update: async () => ({ outcome: 'found', record: book }),
  // @ts-expect-error a deletion that may not become a task
  delete: async () => ({ outcome: 'accepted', task: { type: 'optimize_table' }, uri: '' }),
  // @ts-expect-error the record where a result is declared
  lend: async () => ({ outcome: 'done', result: book }),
  // @ts-expect-error an action without a result always answers with a task
  bind: async () => ({ outcome: 'done', result: book }),
};
export const badPaths: Partial<Books> = {
  // @ts-expect-error the path of a collection ends with what holds it
  list: async ({ segments }) => ({ outcome: 'listed', items: [{ ...book, name: segments[1].name }] }),
};
export async function warehouseOf(catalog: Catalog, name: string): Promise<string> {
  const [root] = await catalog.require([{ category: 'catalogs', name }]);
  // @ts-expect-error a catalog has no columns
  root.spec.columns;
  return root.spec.warehouse;
}
// @ts-expect-error a property that endpoints do not have
export const misspelled = list({ summary: '', permission, deprecatedSince: '2026-06-30' });
// @ts-expect-error an action that has neither a result nor a task
export const pointless = action('object', { summary: '', permission, body: noFields });
// @ts-expect-error an operation without its handler
export const incomplete: Books = { ...good, lend: undefined };
