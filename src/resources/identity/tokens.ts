// The handlers of `tokens`: secrets by which programs authenticate as a user. The secret is returned once, when the token is
// created.

import { type TokenRow, versionOfToken } from '../../access/authentication/tokens.ts';
import type { ParentSegmentsOf } from '../../api/handlers.ts';
import { tokensApi } from '../../api/identity/tokens.ts';
import { checkName } from '../../catalog/changes/object_names.ts';
import { dayMs } from '../../model/durations.ts';
import { parseScopes } from '../../model/principal.ts';
import { likePattern } from '../../model/text_patterns.ts';
import { Failure, invalidParameter, objectNotFound } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { objectVersion } from '../../standard/record_version.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { inMemory, pageOf, smallRows } from '../records/list_page.ts';
import { created, deleted, found } from '../records/outcomes.ts';
import { scopesOf, uriOfIds } from './grants.ts';

const yearMs = 366 * dayMs;

/** The maximum lifetime of a token, and its default. */
const lifetimeMsMax = 10 * yearMs;

const lifetimeMsDefault = 90 * dayMs;

type UserPath = ParentSegmentsOf<typeof tokensApi>;

const time = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());

async function record(row: TokenRow, user: UserPath[0], context: Context) {
  const scopes = row.scopes === null ? null : parseScopes(row.scopes);
  const shown =
    scopes &&
    (await Promise.all(
      scopes.map(async (scope) => ({ privilege: scope.privilege, on: await uriOfIds(scope.path, context) })),
    ));
  const createdAt = new Date(row.created_at).toISOString();
  return {
    name: row.name,
    scopes: shown,
    expiresAt: time(row.expires_at),
    lastUsedAt: time(row.last_used_at),
    state: row.expires_at !== null && row.expires_at <= Date.now() ? ('expired' as const) : ('active' as const),
    createdAt,
    createdBy: row.created_by,
    updatedAt: createdAt,
    updatedBy: row.created_by,
    version: 1,
    uri: uriOf(context.call.version, [user, segment('tokens', row.name)]),
    [objectVersion]: versionOfToken(row),
  };
}

/** Milliseconds since 1970; undefined: the token does not expire. */
function expiryOf(requested: string | null | undefined): number | undefined {
  const now = Date.now();
  if (requested === undefined) return now + lifetimeMsDefault;
  if (requested === null) return undefined;
  const expiresAt = Date.parse(requested);
  if (Number.isNaN(expiresAt))
    throw invalidParameter('/expiresAt', 'format', 'must be a time such as 2026-12-31T00:00:00Z');
  if (expiresAt <= now) throw invalidParameter('/expiresAt', 'future', 'is in the past');
  if (expiresAt > now + lifetimeMsMax)
    throw invalidParameter('/expiresAt', 'maximum', 'must be at most ten years from now');
  return expiresAt;
}

const missing = (name: string) => objectNotFound('tokens', name, `the user has no token ${JSON.stringify(name)}`);

export const tokens = implement(tokensApi, {
  list: async ({ segments, page }, context) => {
    const [user] = await context.catalog.require(segments);
    const read = smallRows((part) => context.tokens.list(user.id, part));
    return pageOf(page, 'name', read, (row) => record(row, segments[0], context));
  },
  get: async ({ path: { token }, segments: [userSegment] }, context) => {
    const [user] = await context.catalog.require([userSegment]);
    const row = await context.tokens.find(user.id, token);
    if (!row) throw missing(token);
    return found(await record(row, userSegment, context));
  },
  create: async ({ segments, body, ifExists }, context) => {
    const { name, scopes = null, expiresAt } = body;
    checkName(name);
    const [user] = await context.catalog.require(segments);
    if (context.call.principal.scopes !== undefined)
      throw new Failure('FORBIDDEN', 'a token with scopes cannot create tokens');
    // A token of root has all privileges, so only root may create one.
    if (user.id === 'root' && context.call.principal.id !== 'root')
      throw new Failure('FORBIDDEN', 'only root can create tokens of root');
    const existing = ifExists === 'return' ? await context.tokens.find(user.id, name) : undefined;
    if (existing) {
      const shown = await record(existing, segments[0], context);
      return created(shown, false);
    }
    const { row, secret } = await context.tokens.create(
      {
        userId: user.id,
        name,
        scopes: scopes === null ? undefined : await scopesOf(scopes, context),
        expiresAt: expiryOf(expiresAt),
      },
      context.call.actor,
    );
    const shown = await record(row, segments[0], context);
    return created({ ...shown, secret }, true);
  },
  delete: async ({ path: { token }, segments: [userSegment] }, context) => {
    const [user] = (await context.catalog.find([userSegment])) ?? [];
    const row = user && (await context.tokens.find(user.id, token));
    return deleted(row ? await context.tokens.remove(row, context.call.actor) : false);
  },
  search: async ({ segments, body: { namePattern }, page }, context) => {
    const matches = namePattern === undefined ? () => true : likePattern(namePattern);
    const [user] = await context.catalog.require(segments);
    const rows = await context.tokens.list(user.id, { after: page.after });
    const found = rows.filter(({ name }) => matches(name));
    return pageOf(page, 'name', inMemory(found), (row) => record(row, segments[0], context));
  },
});
