// Tokens: secrets of a user that programs carry. The secret is shown once, when the token is made.
import { basisOfToken, type TokenRow } from '../../access/authentication/tokens.ts';
import { nullable, recordFields, searchFields } from '../../api/fields.ts';
import { stateField } from '../../api/states.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { nameFault } from '../../model/names.ts';
import type { Scope } from '../../model/principal.ts';
import { type Privilege, privileges } from '../../model/privileges.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { basisOf } from '../../standard/record_version.ts';
import { Type } from '../../standard/type.ts';
import { likePattern } from '../queries/like_pattern.ts';
import { invalid, last } from '../records/fields.ts';
import {
  type Context,
  create,
  created,
  deleted,
  found,
  get,
  list,
  listed,
  remove,
  segment,
} from '../records/handler_context.ts';
import { pageOf, searchBy } from '../records/search.ts';
import { scopesOf, uriOfIds } from './grants.ts';

const scopesMax = 100;
const yearMs = 366 * 86_400_000;
/** A token lives so long at most, and so long where nothing is said. */
const lifetimeMsMax = 10 * yearMs;
const lifetimeMsDefault = 90 * 86_400_000;

const ScopeField = Type.Object(
  {
    privilege: Type.Union(privileges.map((name) => Type.Literal(name))),
    on: Type.String({ minLength: 1, maxLength: 4096, description: 'A URI, as of a grant.' }),
  },
  { additionalProperties: false },
);
const Scopes = nullable(
  Type.Array(ScopeField, { maxItems: scopesMax, description: 'What it is confined to; null: all that its user may.' }),
);
const Timestamp = Type.String({ format: 'date-time' });

const TokenRecord = Type.Object({
  name: Type.String(),
  scopes: Scopes,
  expiresAt: nullable(Timestamp),
  lastUsedAt: nullable(Timestamp),
  state: stateField({ active: 'it is accepted', expired: 'its time is over' }),
  ...recordFields,
});

const userOf = (path: PathParameters) => [segment('users', path.user as string)];
const time = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());

async function require(path: PathParameters, context: Context): Promise<CatalogObject> {
  return last(await context.catalog.require(userOf(path)));
}

async function record(row: TokenRow, path: PathParameters, context: Context) {
  const scopes = row.scopes === null ? null : (JSON.parse(row.scopes) as Scope[]);
  const shown =
    scopes &&
    (await Promise.all(
      scopes.map(async (one) => ({ privilege: one.privilege, on: await uriOfIds(one.path, context) })),
    ));
  const createdAt = time(row.created_at);
  return {
    name: row.name,
    scopes: shown,
    expiresAt: time(row.expires_at),
    lastUsedAt: time(row.last_used_at),
    state: row.expires_at !== null && row.expires_at <= Date.now() ? 'expired' : 'active',
    createdAt,
    createdBy: row.created_by,
    updatedAt: createdAt,
    updatedBy: row.created_by,
    version: 1,
    uri: uriOf(context.call.version, [...userOf(path), segment('tokens', row.name)]),
    [basisOf]: basisOfToken(row),
  };
}

/** Milliseconds since 1970; undefined: never. */
function expiryOf(asked: string | null | undefined): number | undefined {
  const now = Date.now();
  if (asked === undefined) return now + lifetimeMsDefault;
  if (asked === null) return undefined;
  const at = Date.parse(asked);
  if (Number.isNaN(at)) throw invalid('/expiresAt', 'format', 'must be a time such as 2026-12-31T00:00:00Z');
  if (at <= now) throw invalid('/expiresAt', 'future', 'is past');
  if (at > now + lifetimeMsMax) throw invalid('/expiresAt', 'maximum', 'is more than ten years away');
  return at;
}

const missing = (name: string) =>
  new Failure('OBJECT_NOT_FOUND', `the user has no token ${JSON.stringify(name)}`, { category: 'tokens', name });

const own = { privilege: 'own', orSelf: true } as const;

export const tokens: Category<Context> = {
  name: 'tokens',
  singular: 'token',
  title: 'Tokens',
  doc: 'Secrets of a user that programs carry, sent as `Authorization: Bearer`.',
  parameter: 'token',
  parent: 'users',
  record: TokenRecord,
  example: {
    name: 'nightly',
    scopes: [{ privilege: 'read', on: '/api/v2/catalogs/default' }],
    expiresAt: '2026-12-31T00:00:00.000Z',
    lastUsedAt: null,
    state: 'active',
    createdAt: '2026-01-31T10:00:00.000Z',
    createdBy: 'ann',
    updatedAt: '2026-01-31T10:00:00.000Z',
    updatedBy: 'ann',
    version: 1,
    uri: '/api/v2/users/ann/tokens/nightly',
  },
  endpoints: [
    list({
      summary: 'Lists the tokens of a user by name; their secrets are not shown.',
      permission: { ...own, on: 'parent' },
      codes: ['OBJECT_NOT_FOUND'],
      handle: async ({ path, page: { after, limit } }, context) => {
        const rows = await context.tokens.list((await require(path, context)).id, { after, limit: limit + 1 });
        const shown = await Promise.all(rows.slice(0, limit).map((row) => record(row, path, context)));
        return listed(shown, rows.length > limit ? shown.at(-1)?.name : undefined);
      },
    }),
    get({
      summary: 'Shows a token; its secret is not shown.',
      permission: { ...own, on: 'object' },
      handle: async ({ path }, context) => {
        const row = await context.tokens.find((await require(path, context)).id, path.token as string);
        if (!row) throw missing(path.token as string);
        return found(await record(row, path, context));
      },
    }),
    create({
      summary: 'Creates a token. Its `secret` is in this answer and nowhere else.',
      description:
        'Without `expiresAt` it ends after 90 days; null: never. A token that is confined by scopes makes no tokens.',
      permission: { ...own, on: 'parent' },
      codes: ['OBJECT_NOT_FOUND', 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_NOT_SUPPORTED'],
      secretFields: ['secret'],
      body: Type.Object(
        { scopes: Type.Optional(Scopes), expiresAt: Type.Optional(nullable(Timestamp)) },
        { additionalProperties: false },
      ),
      result: Type.Object({
        ...TokenRecord.properties,
        secret: Type.Optional(Type.String({ description: 'Shown this once; `tbl_pat_` and 256 random bits.' })),
        created: Type.Boolean(),
      }),
      example: {
        body: { name: 'nightly', scopes: [{ privilege: 'read', on: '/api/v2/catalogs/default' }] },
      },
      handle: async ({ path, body, ifExists }, context) => {
        const { name, scopes = null, expiresAt } = body as typeof body & { name: string };
        const fault = nameFault(name);
        if (fault !== undefined) throw new Failure('INVALID_NAME', `the name is not acceptable: ${fault}`, { name });
        const user = await require(path, context);
        if (context.call.principal.scopes !== undefined)
          throw new Failure('FORBIDDEN', 'a token that is confined by scopes makes no tokens');
        // Who has a token of the first user is the first user.
        if (user.id === 'root' && context.call.principal.id !== 'root')
          throw new Failure('FORBIDDEN', 'the first user makes its tokens itself');
        const existing = ifExists === 'return' ? await context.tokens.find(user.id, name) : undefined;
        if (existing) {
          const shown = await record(existing, path, context);
          return created(shown, false, shown.uri);
        }
        const asked = scopes as { privilege: Privilege; on: string }[] | null;
        const { row, secret } = await context.tokens.create(
          {
            userId: user.id,
            name,
            scopes: asked === null ? undefined : await scopesOf(asked, context),
            expiresAt: expiryOf(expiresAt),
          },
          context.call.actor,
        );
        const shown = await record(row, path, context);
        return created({ ...shown, secret }, true, shown.uri);
      },
    }),
    remove({
      summary: 'Revokes a token: its next request is refused.',
      permission: { ...own, on: 'object' },
      handle: async ({ path }, context) => {
        const [user] = (await context.catalog.find(userOf(path))) ?? [];
        const row = user && (await context.tokens.find(user.id, path.token as string));
        return deleted(row ? await context.tokens.remove(row, context.call.actor) : false);
      },
    }),
    searchBy({
      category: 'tokens',
      summary: 'Finds tokens of a user by name pattern.',
      permission: { ...own, on: 'parent' },
      codes: ['OBJECT_NOT_FOUND'],
      fields: { namePattern: searchFields.namePattern },
      record: TokenRecord,
      example: { namePattern: 'night%' },
      find: async ({ namePattern }, { path, page }, context) => {
        const fits = namePattern === undefined ? () => true : likePattern(namePattern);
        const rows = await context.tokens.list((await require(path, context)).id, { after: page.after });
        const found = rows.filter(({ name }) => fits(name));
        return pageOf(
          found,
          page,
          ({ name }) => name,
          (row) => record(row, path, context),
        );
      },
    }),
  ],
};
