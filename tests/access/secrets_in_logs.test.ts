// Secrets are sent in every place that takes text, and then searched for in the log at its most verbose level, the metrics, the
// audit trail and all files. Credentials may be nowhere; literals of statements only in the history.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join, relative } from 'node:path';
import { after, before, test } from 'node:test';
import { type Reply, type ServerProcess, startProcess, statementRuns, uri } from '../server.ts';
import { newToken } from './people.ts';
import { makeKey, TokenIssuer } from './token_issuer.ts';

let server: ServerProcess;
let issuer: TokenIssuer;
let output = '';
/** Each planted secret and where it was sent. */
const credentials = new Map<string, string>();
const literals = new Map<string, string>();

/** Unique, and a valid word in SQL, JSON, headers and URLs. */
function plant(place: string, among: Map<string, string> = literals): string {
  const text = `planted${randomBytes(16).toString('hex')}`;
  among.set(text, place);
  return text;
}
const credential = (place: string) => plant(place, credentials);

before(async () => {
  issuer = await new TokenIssuer().start();
  server = await startProcess([
    '--log-level=trace',
    '--failed-logins-per-address-max=1000',
    '--identity-provider-hosts=127.0.0.1',
  ]);
  for (const stream of [server.child.stdout, server.child.stderr])
    stream?.on('data', (chunk: Buffer) => {
      output += chunk;
    });
  credentials.set(server.token, 'the root token');
  await server.client.databases.create({ name: 'db' });
  const columns = [
    { name: 'id', type: 'BIGINT', nullable: false },
    { name: 'text', type: 'VARCHAR(40)' },
  ];
  await server.client.databases('db').tables.create({ name: 't', columns }).done();
});
after(async () => {
  await server?.close();
  await issuer.stop();
});

const getAs = (authorization: string | undefined, path = '/api/v2/catalogs', more: Record<string, string> = {}) =>
  server.request('GET', path, { headers: { authorization, ...more } });
const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

/** The text as sent, and in base64, as in the header. */
function basicCredential(user: string, place: string, password = credential(place)): string {
  const header = basic(user, password);
  credentials.set(header.slice('Basic '.length), `${place}, in base64`);
  return header;
}

function requireRefused(reply: Reply, status: number): void {
  assert.equal(reply.status, status, `${reply.request}: ${reply.text}`);
}

/** A request that no client library sends. */
function raw(text: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(server.port, '127.0.0.1', () => socket.end(text));
    socket.on('close', () => resolve());
    socket.on('error', () => {});
    socket.resume();
  });
}

test('passwords', async () => {
  const password = credential('password of a new user');
  await server.client.users.create({ name: 'ann', password });
  (await getAs(basicCredential('ann', 'password used', password))).is(200);
  requireRefused(await getAs(basicCredential('ann', 'wrong password')), 401);
  requireRefused(await getAs(basicCredential(credential('password sent as a name'), 'password of nobody')), 401);
  (await server.patch('/api/v2/users/ann', { password: credential('password changed') })).is(200);
  requireRefused(await server.patch('/api/v2/users/ann', { password: [credential('password of a wrong type')] }), 400);
  requireRefused(
    await server.patch('/api/v2/users/ann', { passwrod: credential('password in a misspelt field') }),
    400,
  );
  requireRefused(
    await server.post('/api/v2/users/ann/change_password', { newPassword: credential('new, without the old') }),
    400,
  );
  const currentPassword = credential('password that is not the current one');
  const newPassword = credential('password that was not taken');
  const change = await server.post('/api/v2/users/ann/change_password', { currentPassword, newPassword });
  assert.ok(change.status >= 400);
});

test('tokens', async () => {
  const token = await newToken(server, 'ann', 'own');
  credentials.set(token, 'a token');
  (await getAs(`Bearer ${token}`)).is(200);
  requireRefused(await getAs(`Bearer ${credential('what is no token')}`), 401);
  requireRefused(await getAs(`Bearer ${token.slice(0, -1)}${credential('a token with a tail')}`), 401);
  requireRefused(await getAs(`Negotiate ${credential('another scheme')}`), 401);
  requireRefused(await getAs(credential('no scheme')), 401);
  requireRefused(
    await getAs(`Bearer ${token}`, `/api/v2/catalogs?access_token=${credential('token in the query')}`),
    400,
  );
  const key = { 'x-service-idempotency-key': `key-${randomBytes(8).toString('hex')}` };
  const created = await server.request('POST', '/api/v2/users/ann/tokens', { body: { name: 'keyed' }, headers: key });
  credentials.set(created.is(201).at<string>('secret'), 'a token that was made with an idempotency key');
  const replayed = await server.request('POST', '/api/v2/users/ann/tokens', { body: { name: 'keyed' }, headers: key });
  assert.equal(replayed.is(201).result.secret, undefined);
  await server.client.users('ann').tokens('own').delete();
  requireRefused(await getAs(`Bearer ${token}`), 401);
});

test('identity providers', async () => {
  const [validKey, stranger] = await Promise.all([makeKey('RS256', 'one'), makeKey('RS256', 'one')]);
  issuer.keys = [validKey.jwk];
  const body = {
    issuer: issuer.url,
    audiences: ['tabularium'],
    algorithms: ['RS256'],
    userClaim: 'sub',
    createUsers: true,
    clientSecret: credential('client secret'),
  };
  (await server.put('/api/v2/identity_providers/idp', body)).is(201);
  const signInWith = async (place: string, key = validKey, claims = {}) => {
    const jwt = await issuer.token(key, { nonce: place, ...claims });
    credentials.set(jwt.slice(jwt.lastIndexOf('.') + 1), place);
    return getAs(`Bearer ${jwt}`);
  };
  (await signInWith('signature of a JWT')).is(200);
  requireRefused(await signInWith('signature of a JWT of a stranger', stranger), 401);
  requireRefused(await signInWith('signature of a JWT for another', validKey, { aud: 'other' }), 401);
  requireRefused(await signInWith('signature of a JWT that ran out', validKey, { exp: 1 }), 401);
  (await server.patch('/api/v2/identity_providers/idp', { clientSecret: credential('client secret changed') })).is(200);
  requireRefused(
    await server.patch('/api/v2/identity_providers/idp', { clientSecret: [credential('of a wrong type')] }),
    400,
  );
});

test('headers, and malformed requests', async () => {
  const headers = ['cookie', 'x-api-key', 'proxy-authorization', 'x-forwarded-for', 'user-agent'];
  for (const header of headers) await getAs(`Bearer ${server.token}`, undefined, { [header]: credential(header) });
  await raw(`GET /api/v2/catalogs HTTP/1.1\r\nAuthorization: Bearer ${credential('no host')}\r\n\r\n`);
  await raw(`GET / HTTP/1.1\r\nHost: a\r\nBad Header ${credential('malformed header')}\r\n\r\n`);
  await raw(`${credential('no method')} / HTTP/1.1\r\n\r\n`);
  await raw(`GET http://u:${credential('userinfo of a URL')}@h/api/v2/catalogs HTTP/1.1\r\nHost: h\r\n\r\n`);
  await server.send('POST', '/api/v2/databases/db/query', { body: `{"password": "${credential('no JSON')}` });
  await server.send('POST', '/api/v2/users/ann/tokens', { body: `[${credential('no JSON at all')}]` });
});

test('statements', async () => {
  const sql = (text: string, more: object = {}) => server.query('db', text, more);
  (await sql(`SELECT '${plant('SELECT')}'`)).is(200);
  (await sql('SELECT $1', { parameters: [plant('parameter')] })).is(200);
  requireRefused(await sql('SELECT $1::INTEGER', { parameters: [plant('parameter that is no number')] }), 400);
  requireRefused(await sql(`SELECT '${plant('cast')}'::INTEGER`), 400);
  requireRefused(await sql(`SELEC '${plant('syntax error')}'`), 400);
  requireRefused(await sql(`SELECT "${plant('name')}"`), 400);
  requireRefused(await sql(`SELECT error('${plant('error()')}')`), 400);
  requireRefused(await sql(`COPY t TO '${plant('COPY')}'`), 400);
  (await sql(`INSERT INTO t VALUES (1, '${plant('INSERT')}')`)).is(200);
  (await sql(`UPDATE t SET text = '${plant('UPDATE')}' WHERE id = 1`)).is(200);
  (await sql(`DELETE FROM t WHERE text = '${plant('DELETE')}'`)).is(200);
  const tooLong = plant('value that is too long') + 'x'.repeat(100);
  requireRefused(await sql(`INSERT INTO t VALUES (2, '${tooLong}')`), 400);
  (await server.post('/api/v2/databases/db/explain', { sql: `SELECT '${plant('explain')}'` })).is(200);
  const rows = (...rowObjects: object[]) => server.post('/api/v2/databases/db/tables/t/rows', { rows: rowObjects });
  await rows({ id: 3, text: plant('a row') });
  await rows({ id: plant('a row of a wrong type'), text: 1 });
  await rows({ id: 4, [plant('a column that is not there')]: 1 });
  const task = await sql(`SELECT sum(range), '${plant('task')}' FROM range(300000000)`, { waitSeconds: 0 });
  await server.ended(task);
  const failing = await sql(`SELECT sum(('${plant('task that fails')}' || range)::INTEGER) FROM range(9)`, {
    waitSeconds: 0,
  });
  if (failing.status === 202) await server.ended(failing);
  await server.get(uri`/databases/${plant('name in a path')}`);
});

test('an engine that dies', async () => {
  const sql = `SELECT sum(a.range * b.range), '${plant('killed')}' FROM range(10000000) a, range(10000000) b`;
  const running = server.query('db', sql, { waitSeconds: 60 });
  // It is retried once.
  const killed = new Set<number>();
  while (killed.size < 2) {
    await statementRuns(server);
    const pids = [...output.matchAll(/"pid":(\d+),"msg":"engineStarted"/g)].map(([, pid]) => Number(pid));
    const pid = pids.at(-1);
    if (pid === undefined || killed.has(pid)) continue;
    killed.add(pid);
    process.kill(pid, 'SIGKILL');
  }
  requireRefused(await running, 503);
});

/** The whole trail, page by page. */
async function auditText(): Promise<string> {
  let text = '';
  for (let pageToken: string | undefined; ; ) {
    const reply = await server.post('/api/v2/audit_events/search', {
      pageSize: 1000,
      ...(pageToken === undefined ? {} : { pageToken }),
    });
    text += JSON.stringify(reply.is(200).result);
    pageToken = reply.result.nextPageToken as string | undefined;
    if (pageToken === undefined) return text;
  }
}

function assertNone(text: string, source: string, ...planted: Map<string, string>[]): void {
  for (const among of planted)
    for (const [secret, place] of among) {
      const position = text.indexOf(secret);
      if (position >= 0)
        assert.fail(`${source} has ${place}: ${text.slice(Math.max(position - 200, 0), position + 80)}`);
    }
}

/** Rows and results are users' data, the history (in the metadata) contains texts of statements, and the root token has its file. */
const mayHaveLiterals = /^metadata\.sqlite|\.duckdb|^results\//;

test('no secret is in the log, the metrics, the audit trail or a file', async () => {
  const { text: metrics } = await server.send('GET', '/metrics');
  assertNone(metrics, '/metrics', credentials, literals);
  // The trail contains the targets of actions: a name in a path is not secret there.
  for (const [text, place] of literals) if (place === 'name in a path') literals.delete(text);
  const trail = await auditText();
  assert.match(trail, /users/);
  assertNone(trail, 'the audit trail', credentials, literals);

  server.child.kill('SIGTERM');
  await server.exited;
  assert.match(output, /requestEnded/);
  assert.match(output, /queryEnded/);
  assertNone(output, 'the log', credentials, literals);
  const files = readdirSync(server.dataDirectory, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = files.map(({ parentPath, name }) => relative(server.dataDirectory, join(parentPath, name)));
  assert.ok(paths.includes('metadata.sqlite'));
  for (const path of paths) {
    if (path === 'root.token') continue;
    const text = readFileSync(join(server.dataDirectory, path), 'latin1');
    assertNone(text, path, credentials, ...(mayHaveLiterals.test(path) ? [] : [literals]));
  }
});
