// The catalog's queries, compiled once per store.
import { type Kysely, sql } from 'kysely';
import { visible } from '../store/index_conditions.ts';
import { type PreparedQuery, prepareQuery } from '../store/prepared.ts';
import type { IntentsTable, ObjectState, ObjectsTable, Schema } from '../store/schema.ts';
import { type ObjectRow, objectColumns } from './object_rows.ts';

/** The maximum number of ids in one `in (...)` of a query. */
export const idsPerQueryMax = 1000;

export interface AncestorRow {
  readonly id: string;
  readonly parent_id: string | null;
  readonly category: string;
  readonly name: string;
  readonly state: ObjectsTable['state'];
}

export type CatalogStatements = ReturnType<typeof catalogStatements>;

export function catalogStatements(db: Kysely<Schema>) {
  return {
    byId: prepareQuery<{ id: string }>()(db, (q, slot) =>
      q.selectFrom('objects').select(objectColumns).where('id', '=', slot('id')),
    ),
    ...siblingStatements(db),
    ...intentStatements(db),
    ancestors: ancestors(db),
    ownedDescendant: prepareQuery<{ owner: string; objectId: string }>()(db, (q, slot) =>
      q
        .selectFrom('objects as child')
        .leftJoin('objects as grandchild', 'grandchild.parent_id', 'child.id')
        .select('child.id')
        .where('child.parent_id', '=', slot('objectId'))
        .where((e) => e.or([e('child.owner', '=', slot('owner')), e('grandchild.owner', '=', slot('owner'))]))
        .limit(1),
    ),
    ancestorsOfOwned: prepareQuery<{ owner: string }>()(db, (q, slot) =>
      q
        .selectFrom('objects as own')
        .innerJoin('objects as parent', 'parent.id', 'own.parent_id')
        .select(['own.parent_id', 'parent.parent_id as grandparent_id'])
        .distinct()
        .where('own.owner', '=', slot('owner'))
        .where('own.state', 'in', ['ready', 'altering', 'blocked']),
    ),
    openBelow: openBelow(db),
    insertObject: prepareQuery<ObjectsTable & Record<string, unknown>>()(db, (q, slot) =>
      q
        .insertInto('objects')
        .values({
          id: slot('id'),
          category: slot('category'),
          parent_id: slot('parent_id'),
          name: slot('name'),
          folded_name: slot('folded_name'),
          state: slot('state'),
          state_reason: slot('state_reason'),
          owner: slot('owner'),
          version: slot('version'),
          created_at: slot('created_at'),
          created_by: slot('created_by'),
          updated_at: slot('updated_at'),
          updated_by: slot('updated_by'),
          folded_comment: slot('folded_comment'),
          spec: slot('spec'),
        })
        .onConflict((c) => c.doNothing()),
    ),
    setState: prepareQuery<{ id: string; from: ObjectState; orFrom: ObjectState; to: ObjectState }>()(db, (q, slot) =>
      q
        .updateTable('objects')
        .set({ state: slot('to') })
        .where('id', '=', slot('id'))
        .where((e) => e.or([e('state', '=', slot('from')), e('state', '=', slot('orFrom'))])),
    ),
    deleteObject: prepareQuery<{ id: string }>()(db, (q, slot) =>
      q.deleteFrom('objects').where('id', '=', slot('id')).returning(['id', 'parent_id', 'category']),
    ),
    statistics: prepareQuery<{ id: string }>()(db, (q, slot) =>
      q.selectFrom('table_statistics').selectAll().where('object_id', '=', slot('id')),
    ),
  };
}

/** Roots have no parent to compare with, so each query by parent exists in two forms. */
function siblingStatements(db: Kysely<Schema>) {
  const sibling = (q: Kysely<Schema>) => q.selectFrom('objects').select(objectColumns);
  const counted = (q: Kysely<Schema>) =>
    q
      .selectFrom('objects')
      .select((e) => e.fn.countAll<number>().as('count'))
      .where(visible);
  return {
    siblingRoot: prepareQuery<{ category: string; folded: string }>()(db, (q, slot) =>
      sibling(q)
        .where('parent_id', 'is', null)
        .where('category', '=', slot('category'))
        .where('folded_name', '=', slot('folded')),
    ),
    siblingChild: prepareQuery<{ parentId: string; category: string; folded: string }>()(db, (q, slot) =>
      sibling(q)
        .where('parent_id', '=', slot('parentId'))
        .where('category', '=', slot('category'))
        .where('folded_name', '=', slot('folded')),
    ),
    countRoot: prepareQuery<{ category: string }>()(db, (q, slot) =>
      counted(q).where('parent_id', 'is', null).where('category', '=', slot('category')),
    ),
    countChild: prepareQuery<{ parentId: string; category: string }>()(db, (q, slot) =>
      counted(q).where('parent_id', '=', slot('parentId')).where('category', '=', slot('category')),
    ),
  };
}

function intentStatements(db: Kysely<Schema>) {
  return {
    intentOf: prepareQuery<{ objectId: string }>()(db, (q, slot) =>
      q.selectFrom('intents').selectAll().where('object_id', '=', slot('objectId')),
    ),
    insertIntent: prepareQuery<IntentsTable & Record<string, unknown>>()(db, (q, slot) =>
      q.insertInto('intents').values({
        id: slot('id'),
        object_id: slot('object_id'),
        verb: slot('verb'),
        undoing: slot('undoing'),
        warehouse: slot('warehouse'),
        change: slot('change'),
        undo: slot('undo'),
        next: slot('next'),
        task_id: slot('task_id'),
        principal: slot('principal'),
        actor: slot('actor'),
        created_at: slot('created_at'),
        attempts: slot('attempts'),
        last_error: slot('last_error'),
        engine_deaths: slot('engine_deaths'),
        leased_by: slot('leased_by'),
        lease_until: slot('lease_until'),
      }),
    ),
    deleteIntent: prepareQuery<{ id: string; holder: string }>()(db, (q, slot) =>
      q.deleteFrom('intents').where('id', '=', slot('id')).where('leased_by', '=', slot('holder')),
    ),
    /** Deletes the object of an intent, and with it the intent and all descendants. */
    deleteObjectOf: prepareQuery<{ id: string; intentId: string; holder: string }>()(db, (q, slot) =>
      q
        .deleteFrom('objects')
        .where('id', '=', slot('id'))
        .where('id', 'in', (i) =>
          i
            .selectFrom('intents')
            .select('object_id')
            .where('intents.id', '=', slot('intentId'))
            .where('leased_by', '=', slot('holder')),
        )
        .returning(['id', 'parent_id', 'category']),
    ),
  };
}

/** The object and its ancestors, nearest first. */
function ancestors(db: Kysely<Schema>): PreparedQuery<{ id: string }, AncestorRow> {
  return prepareQuery<{ id: string }>()(db, (q, slot) =>
    q
      .withRecursive('chain(id, parent_id, category, name, state, depth)', (w) =>
        w
          .selectFrom('objects')
          .select(['id', 'parent_id', 'category', 'name', 'state', sql<number>`0`.as('depth')])
          .where('id', '=', slot('id'))
          .unionAll(
            w
              .selectFrom('chain')
              .innerJoin('objects', 'objects.id', 'chain.parent_id')
              .select([
                'objects.id',
                'objects.parent_id',
                'objects.category',
                'objects.name',
                'objects.state',
                sql<number>`chain.depth + 1`.as('depth'),
              ]),
          ),
      )
      .selectFrom('chain')
      .select(['id', 'parent_id', 'category', 'name', 'state'])
      .orderBy('depth'),
  );
}

/** Descendants with an open intent. Searches upwards from the intents, which are few, instead of downwards through the objects. */
function openBelow(db: Kysely<Schema>): PreparedQuery<{ id: string; limit: number }, { object_id: string }> {
  return prepareQuery<{ id: string; limit: number }>()(db, (q, slot) =>
    q
      .withRecursive('above(object_id, ancestor_id)', (w) =>
        w
          .selectFrom('intents')
          .innerJoin('objects', 'objects.id', 'intents.object_id')
          .select(['intents.object_id', 'objects.parent_id as ancestor_id'])
          .unionAll(
            w
              .selectFrom('above')
              .innerJoin('objects', 'objects.id', 'above.ancestor_id')
              .select(['above.object_id', 'objects.parent_id as ancestor_id'])
              .where('objects.parent_id', 'is not', null),
          ),
      )
      .selectFrom('above')
      .select('object_id')
      .where('ancestor_id', '=', slot('id'))
      .limit(slot('limit')),
  );
}

/** A path of `levels` names in one query. Columns of the n-th object are called `o<n>_<column>`. */
export function pathStatement(db: Kysely<Schema>, levels: number) {
  const numbers = Array.from({ length: levels }, (_, n) => n);
  return prepareQuery<Record<string, string>>()(db, (q, slot) => {
    const columns = numbers.flatMap((n) =>
      objectColumns.map((column) => sql`${sql.ref(`o${n}.${column}`)} as ${sql.ref(`o${n}_${column}`)}`),
    );
    const tables = numbers.map((n) => sql`objects as ${sql.table(`o${n}`)}`);
    const conditions = numbers.map((n) => {
      const parent =
        n === 0 ? sql`o0.parent_id is null` : sql`${sql.ref(`o${n}.parent_id`)} = ${sql.ref(`o${n - 1}.id`)}`;
      const state = sql`${sql.ref(`o${n}.state`)} in ('ready', 'altering', 'blocked')`;
      return sql`${parent} and ${sql.ref(`o${n}.category`)} = ${slot(`category${n}`)} and ${sql.ref(`o${n}.name`)} = ${slot(`name${n}`)} and ${state}`;
    });
    const query = sql<
      Record<string, never>
    >`select ${sql.join(columns)} from ${sql.join(tables)} where ${sql.join(conditions, sql` and `)}`;
    return { compile: () => query.compile(q) };
  });
}

/** Ids and owners of the longest existing prefix of a path. */
export function prefixStatement(db: Kysely<Schema>, levels: number) {
  const numbers = Array.from({ length: levels }, (_, n) => n);
  return prepareQuery<Record<string, string>>()(db, (q, slot) => {
    const columns = numbers.map(
      (n) => sql`${sql.ref(`o${n}.id`)} as ${sql.ref(`id${n}`)}, ${sql.ref(`o${n}.owner`)} as ${sql.ref(`owner${n}`)}`,
    );
    const matchesStep = (n: number) =>
      sql`${sql.ref(`o${n}.category`)} = ${slot(`category${n}`)} and ${sql.ref(`o${n}.name`)} = ${slot(`name${n}`)} and ${sql.ref(`o${n}.state`)} in ('ready', 'altering', 'blocked')`;
    const joins = numbers
      .slice(1)
      .map(
        (n) =>
          sql`left join objects as ${sql.table(`o${n}`)} on ${sql.ref(`o${n}.parent_id`)} = ${sql.ref(`o${n - 1}.id`)} and ${matchesStep(n)}`,
      );
    const query = sql<
      Record<string, string | null>
    >`select ${sql.join(columns)} from objects as o0 ${sql.join(joins, sql` `)} where o0.parent_id is null and ${matchesStep(0)}`;
    return { compile: () => query.compile(q) };
  });
}

type Aliases = Readonly<Record<(typeof objectColumns)[number], string>>;
const aliases: Aliases[] = [];

/** The n-th object of a row of `pathStatement`. */
export function pathRow(row: Record<string, unknown>, n: number): ObjectRow {
  aliases[n] ??= Object.fromEntries(objectColumns.map((column) => [column, `o${n}_${column}`])) as Aliases;
  const alias = aliases[n];
  // Column by column: this is the hottest path, and a loop over names takes three times as long.
  return {
    id: row[alias.id] as string,
    category: row[alias.category] as string,
    parent_id: row[alias.parent_id] as string | null,
    name: row[alias.name] as string,
    state: row[alias.state] as ObjectRow['state'],
    state_reason: row[alias.state_reason] as string | null,
    owner: row[alias.owner] as string,
    version: row[alias.version] as number,
    created_at: row[alias.created_at] as number,
    created_by: row[alias.created_by] as string,
    updated_at: row[alias.updated_at] as number,
    updated_by: row[alias.updated_by] as string,
    spec: row[alias.spec] as string,
  };
}
