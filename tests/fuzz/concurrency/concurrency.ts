// Many concurrent clients on the same few names. Every response conforms to the standard, and some order explains all of them: no
// update is lost, nothing is created twice, and the final state is that of the last change.
import assert from 'node:assert/strict';
import type { Random } from '../../random.ts';
import type { Reply, TestServer } from '../../server.ts';
import { linearize, type Operation } from './linear.ts';

export interface ConcurrencyOptions {
  readonly random: Random;
  readonly level: Level;
  readonly clients: number;
  readonly operationsEach: number;
}

export interface ConcurrencyReport {
  readonly operations: number;
  /** Refused because another change was in progress; without effect. */
  readonly inProgress: number;
}

interface ObjectState {
  readonly version: number;
  readonly comment: string | null;
}

/** Existing objects by name. */
type State = Readonly<Record<string, ObjectState>>;

export const levels = ['catalogs', 'databases', 'tables', 'columns'] as const;
export type Level = (typeof levels)[number];

const parents: Record<Level, string> = {
  catalogs: '/api/v2',
  databases: '/api/v2/catalogs/default',
  tables: '/api/v2/databases/crowded',
  columns: '/api/v2/databases/crowded/tables/wide',
};

const bodies: Record<Level, object> = {
  catalogs: {},
  databases: {},
  tables: { columns: [{ name: 'id', type: 'INT' }] },
  columns: { type: 'INT' },
};

/** `ann` and `ANN` are one name to SQL. */
const names = ['ann', 'bob', 'cy/d', 'ANN'];

export async function runConcurrently(server: TestServer, options: ConcurrencyOptions): Promise<ConcurrencyReport> {
  const { random, level, clients, operationsEach } = options;
  const collection = `${parents[level]}/${level}`;
  await prepare(server, collection);
  const history: Operation<State>[] = [];
  let inProgress = 0;
  const client = async (clientRandom: Random): Promise<void> => {
    for (let i = 0; i < operationsEach; i++) {
      const meant = draw(clientRandom, level, collection);
      const start = performance.now();
      const reply = await server.request(
        meant.method,
        meant.path,
        meant.body === undefined ? {} : { body: meant.body },
      );
      const end = performance.now();
      const description = `${meant.method} ${meant.path} ${JSON.stringify(meant.body) ?? ''} → ${reply.text.slice(0, 200)}`;
      if (reply.code === 'CHANGE_IN_PROGRESS' || reply.code === 'WAREHOUSE_BUSY') {
        inProgress++;
        continue;
      }
      assert(reply.status < 500, description);
      history.push({ start, end, description, apply: (state) => meant.apply(state, reply) });
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, i) => client(random.fork(i))));
  for (const name of names) history.push(await lookAtTheEnd(server, collection, name));
  const { explained, stuck } = linearize<State>(history, {}, (state) => JSON.stringify(Object.entries(state).sort()));
  assert(explained, `no order explains these answers; where it came furthest:\n${stuck.join('\n')}`);
  return { operations: history.length, inProgress };
}

async function prepare(server: TestServer, collection: string): Promise<void> {
  await server.put('/api/v2/databases/crowded');
  const columns = [{ name: 'always', type: 'INT' }];
  await server.put('/api/v2/databases/crowded/tables/wide', { columns });
  for (const name of names) {
    const cascade = /columns|tables/.test(collection.split('/').at(-1) ?? '') ? '' : '?cascade=true';
    (await server.delete(`${collection}/${encodeURIComponent(name)}${cascade}`)).is(200);
  }
}

async function lookAtTheEnd(server: TestServer, collection: string, name: string): Promise<Operation<State>> {
  const start = performance.now();
  const reply = await server.get(`${collection}/${encodeURIComponent(name)}`);
  const description = `at the end, GET ${name} → ${reply.text.slice(0, 200)}`;
  return { start, end: performance.now(), description, apply: (state) => stateAfter(state, name, reply) };
}

interface IntendedChange {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly apply: (state: State, reply: Reply) => State | undefined;
}

function draw(random: Random, level: Level, collection: string): IntendedChange {
  const name = random.pick(names);
  const uri = `${collection}/${encodeURIComponent(name)}`;
  const draw = random.next();
  if (draw < 0.2) {
    const body = { name, ...bodies[level] };
    return { method: 'POST', path: collection, body, apply: (state, reply) => stateAfterPost(state, name, reply) };
  }
  if (draw < 0.3) {
    return {
      method: 'PUT',
      path: uri,
      body: bodies[level],
      apply: (state, reply) => stateAfterPut(state, name, reply),
    };
  }
  if (draw < 0.45) return { method: 'DELETE', path: uri, apply: (state, reply) => deleted(state, name, reply) };
  if (draw < 0.6) {
    const newName = random.pick(names);
    const apply = (state: State, reply: Reply) => renamed(state, name, newName, reply);
    return { method: 'POST', path: `${uri}/rename`, body: { newName }, apply };
  }
  if (draw < 0.85) {
    const comment = `comment ${random.below(1000)}`;
    const expected = random.chance(0.5) ? { expectedVersion: 1 + random.below(4) } : {};
    const apply = (state: State, reply: Reply) =>
      stateAfterPatch(state, name, comment, expected.expectedVersion, reply);
    return { method: 'PATCH', path: uri, body: { comment, ...expected }, apply };
  }
  return { method: 'GET', path: uri, apply: (state, reply) => stateAfter(state, name, reply) };
}

const folded = (state: State, name: string): string | undefined =>
  Object.keys(state).find((key) => key.toLowerCase() === name.toLowerCase());

const created: ObjectState = { version: 1, comment: null };
const isHeld = ({ version, comment }: ObjectState, reply: Reply) =>
  reply.at('version') === version && reply.at('comment') === comment;
const isMissing = (state: State, name: string, reply: Reply) =>
  reply.code === 'OBJECT_NOT_FOUND' && !Object.hasOwn(state, name);

function stateAfterPost(state: State, name: string, reply: Reply): State | undefined {
  const existing = folded(state, name);
  if (existing === undefined)
    return reply.status === 201 && isHeld(created, reply) ? { ...state, [name]: created } : undefined;
  return reply.code === 'OBJECT_ALREADY_EXISTS' && reply.at('name') === existing ? state : undefined;
}

function stateAfterPut(state: State, name: string, reply: Reply): State | undefined {
  const current = state[name];
  if (!current) return reply.at('created') === false ? undefined : stateAfterPost(state, name, reply);
  return reply.status === 201 && reply.at('created') === false && isHeld(current, reply) ? state : undefined;
}

function deleted(state: State, name: string, reply: Reply): State | undefined {
  if (reply.status !== 200 || reply.at('deleted') !== Object.hasOwn(state, name)) return undefined;
  const { [name]: _gone, ...rest } = state;
  return rest;
}

function renamed(state: State, name: string, newName: string, reply: Reply): State | undefined {
  const current = state[name];
  if (!current) return isMissing(state, name, reply) ? state : undefined;
  const existing = folded(state, newName);
  if (existing !== undefined && existing !== name) return reply.code === 'OBJECT_ALREADY_EXISTS' ? state : undefined;
  const next = newName === name ? current : { ...current, version: current.version + 1 };
  if (reply.status !== 200 || !isHeld(next, reply)) return undefined;
  const { [name]: _old, ...rest } = state;
  return { ...rest, [newName]: next };
}

function stateAfterPatch(
  state: State,
  name: string,
  comment: string,
  expectedVersion: number | undefined,
  reply: Reply,
): State | undefined {
  const current = state[name];
  if (!current) return isMissing(state, name, reply) ? state : undefined;
  if (expectedVersion !== undefined && expectedVersion !== current.version) {
    return reply.code === 'VERSION_CONFLICT' && reply.at('version') === current.version ? state : undefined;
  }
  const next = comment === current.comment ? current : { version: current.version + 1, comment };
  return reply.status === 200 && isHeld(next, reply) ? { ...state, [name]: next } : undefined;
}

function stateAfter(state: State, name: string, reply: Reply): State | undefined {
  const current = state[name];
  if (!current) return isMissing(state, name, reply) ? state : undefined;
  return reply.status === 200 && isHeld(current, reply) ? state : undefined;
}
