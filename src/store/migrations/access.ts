// The tables of access/: role members, grants, tokens, the audit trail and secrets; and the owner of each task, statement and object, as
// the id of a user. The first user is `root`.
import type { Kysely } from 'kysely';
import type { Schema } from '../schema.ts';
import type { ColumnTypes, Migration } from './migration.ts';

export const accessMigration: Migration = {
  name: 'users, roles, grants, tokens, audit events, secrets',
  async up(db, types) {
    await createGrants(db, types);
    await createTokens(db, types);
    await createAudit(db, types);
    await db.schema
      .createTable('secrets')
      .addColumn('name', types.name, (c) => c.notNull().primaryKey())
      .addColumn('key_id', types.name, (c) => c.notNull())
      .addColumn('sealed', 'text', (c) => c.notNull())
      .execute();
    await addOwners(db, types);
  },
};

async function createGrants(db: Kysely<Schema>, types: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('role_members')
    .addColumn('role_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
    .addColumn('user_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
    .addPrimaryKeyConstraint('role_members_key', ['role_id', 'user_id'])
    .execute();
  await db.schema.createIndex('role_members_user').on('role_members').column('user_id').execute();
  await db.schema
    .createTable('grants')
    .addColumn('grant_id', types.name, (c) => c.notNull())
    .addColumn('grantee_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
    .addColumn('privilege', types.name, (c) => c.notNull())
    .addColumn('on_id', types.name, (c) => c.notNull())
    .addColumn('object_id', types.name, (c) => c.references('objects.id').onDelete('cascade'))
    .addColumn('path', 'text', (c) => c.notNull())
    .addColumn('created_at', types.integer, (c) => c.notNull())
    .addColumn('created_by', types.name, (c) => c.notNull())
    .addPrimaryKeyConstraint('grants_key', ['grantee_id', 'grant_id'])
    .execute();
  await db.schema.createIndex('grants_object').on('grants').column('object_id').execute();
}

async function createTokens(db: Kysely<Schema>, types: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('tokens')
    .addColumn('token_id', types.name, (c) => c.notNull().primaryKey())
    .addColumn('user_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
    .addColumn('name', types.name, (c) => c.notNull())
    .addColumn('folded_name', types.name, (c) => c.notNull())
    .addColumn('digest', types.name, (c) => c.notNull().unique())
    .addColumn('scopes', 'text')
    .addColumn('expires_at', types.integer)
    .addColumn('last_used_at', types.integer)
    .addColumn('created_at', types.integer, (c) => c.notNull())
    .addColumn('created_by', types.name, (c) => c.notNull())
    .execute();
  await db.schema.createIndex('tokens_name').unique().on('tokens').columns(['user_id', 'folded_name']).execute();
}

async function createAudit(db: Kysely<Schema>, types: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('audit_events')
    .addColumn('server_id', types.name, (c) => c.notNull())
    .addColumn('sequence', types.integer, (c) => c.notNull())
    .addColumn('event_id', types.name, (c) => c.notNull().unique())
    .addColumn('at', types.integer, (c) => c.notNull())
    .addColumn('action', types.name, (c) => c.notNull())
    .addColumn('outcome', types.name, (c) => c.notNull())
    .addColumn('principal_id', types.name)
    .addColumn('principal', types.name)
    .addColumn('request_id', types.name)
    .addColumn('address', types.name)
    .addColumn('target', 'text')
    .addColumn('object_id', types.name)
    .addColumn('details', 'text')
    .addColumn('digest', types.name, (c) => c.notNull())
    .addPrimaryKeyConstraint('audit_events_key', ['server_id', 'sequence'])
    .execute();
  await db.schema
    .createTable('audit_chains')
    .addColumn('server_id', types.name, (c) => c.notNull().primaryKey())
    .addColumn('removed_sequence', types.integer, (c) => c.notNull())
    .addColumn('removed_digest', types.name, (c) => c.notNull())
    .addColumn('last_sequence', types.integer, (c) => c.notNull())
    .addColumn('last_digest', types.name, (c) => c.notNull())
    .addColumn('seal', types.name, (c) => c.notNull())
    .execute();
}

/** Existing rows belong to root, the only user that could have created them. */
async function addOwners(db: Kysely<Schema>, types: ColumnTypes): Promise<void> {
  await db.schema.alterTable('intents').addColumn('actor', 'text').execute();
  await db.schema
    .alterTable('tasks')
    .addColumn('owner', types.name, (c) => c.notNull().defaultTo('root'))
    .execute();
  await db.schema
    .alterTable('tasks')
    .addColumn('principal', 'text', (c) => c.notNull().defaultTo('{"id":"root","name":"root"}'))
    .execute();
  await db.schema.createIndex('tasks_owner').on('tasks').columns(['owner', 'task_id']).execute();
  await db.schema
    .alterTable('queries')
    .addColumn('owner', types.name, (c) => c.notNull().defaultTo('root'))
    .execute();
  await db.schema.createIndex('queries_owner').on('queries').columns(['owner', 'query_id']).execute();
  await db.schema.createIndex('objects_owner').on('objects').columns(['owner', 'parent_id', 'category']).execute();
  const now = Date.now();
  const by = { owner: 'root', created_at: now, created_by: 'system', updated_at: now, updated_by: 'system' };
  await db
    .insertInto('objects')
    .values({
      id: 'root',
      category: 'users',
      parent_id: null,
      name: 'root',
      folded_name: 'root',
      state: 'ready',
      version: 1,
      folded_comment: null,
      spec: '{}',
      ...by,
    })
    .execute();
}

/** Adds to tokens the identity provider by which their user signed in. */
export const tokenSignInMigration: Migration = {
  name: 'sign-in of tokens',
  async up(db) {
    await db.schema.alterTable('tokens').addColumn('sign_in', 'text').execute();
    await db.schema.createIndex('tokens_expiry').on('tokens').column('expires_at').execute();
  },
};
