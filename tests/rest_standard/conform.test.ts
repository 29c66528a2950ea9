// The kit for running services: nothing to find in a service that keeps the standard, each planted fault found by exactly the rule that names it.
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { CallError } from '../../src/conformance/live/calls.ts';
import { liveRules } from '../../src/conformance/live/rules.ts';
import { LeftObjectsError, type LiveResult, runLive } from '../../src/conformance/live/run.ts';
import { subjectsOf } from '../../src/conformance/live/subjects.ts';
import { deadlineMs } from '../deadline.ts';
import { type Fault, type FaultyServer, faults, startFaultyServer, type Trouble } from './faulty_server.ts';

interface RunOptions {
  readonly namespace?: string;
  readonly signal?: AbortSignal;
  readonly callTimeoutMs?: number;
}

async function run(
  server: FaultyServer,
  { namespace = 'conform', signal, callTimeoutMs = deadlineMs(20_000) }: RunOptions = {},
): Promise<LiveResult> {
  const document: unknown = await (await fetch(`${server.url}/openapi.json`)).json();
  return runLive({
    service: { baseUrl: server.url, authorization: `Bearer ${server.token}`, callTimeoutMs },
    subjects: subjectsOf(document, []),
    namespace: namespace === '' ? undefined : namespace,
    taskTimeoutMs: deadlineMs(500),
    signal: signal ?? new AbortController().signal,
    progress: () => undefined,
  });
}

async function withServer<T>(
  planted: readonly (Fault | Trouble)[],
  use: (server: FaultyServer) => Promise<T>,
): Promise<T> {
  const server = await startFaultyServer(...planted);
  try {
    return await use(server);
  } finally {
    await server.close();
  }
}

const broken = ({ report }: LiveResult): string[] =>
  report.rules.filter(({ findings }) => findings.length > 0).map(({ id }) => id);
const explained = ({ report }: LiveResult): string =>
  report.rules
    .flatMap(({ id, findings }) => findings.map(({ place, message }) => `${id}: ${place}: ${message}`))
    .join('\n');

test('a service that keeps the standard passes whole, every rule is checked, and nothing is left', () =>
  withServer([], async (server) => {
    const result = await run(server);
    assert.deepEqual(broken(result), [], explained(result));
    assert.deepEqual(
      result.report.rules.filter(({ skipped }) => skipped !== undefined),
      [],
    );
    const notes = result.report.rules.flatMap(({ notes }) => notes);
    assert.ok(notes.includes('a missing object is 404 NOT_FOUND (There is no such object.)'), notes.join('\n'));
    assert.ok(
      notes.includes('nothing is created in /api/v1/seals: /print is required and has a pattern, but no example'),
      notes.join('\n'),
    );
    assert.deepEqual([server.names(), result.left], [['first'], []]);
  }));

test('without a namespace nothing is created', () =>
  withServer([], async (server) => {
    const { report } = await run(server, { namespace: '' });
    const checked = report.rules.filter(({ skipped }) => skipped === undefined).map(({ id }) => id);
    assert.deepEqual(
      ['get', 'unauthenticated', 'envelope', 'post', 'delete'].map((id) => checked.includes(id)),
      [true, true, true, false, false],
    );
    assert.deepEqual(server.names(), ['first']);
  }));

describe('a planted fault is found by the rule that names it, and by no other', { concurrency: 4 }, () => {
  for (const [fault, rule] of Object.entries(faults))
    it(fault, () =>
      withServer([fault as Fault], async (server) => {
        const result = await run(server);
        assert.deepEqual(broken(result), [rule], explained(result));
        const isKept = (name: string) => result.left.some((path) => decodeURIComponent(path).endsWith(`/${name}`));
        assert.deepEqual(
          server.names().filter((name) => !isKept(name)),
          ['first'],
          'nothing is left that is not reported',
        );
      }),
    );
  it('each rule has one', () => {
    const named = new Set<string>(Object.values(faults));
    assert.deepEqual(
      Object.values(liveRules)
        .map(({ id }) => id)
        .filter((id) => !named.has(id)),
      [],
    );
  });
});

test('what cannot be deleted is reported', () =>
  withServer(['deletions are refused'], async (server) => {
    const { left } = await run(server);
    const names = server.names().filter((name) => name !== 'first');
    assert.ok(names.length > 0);
    for (const name of names)
      assert.ok(
        left.some((path) => decodeURIComponent(path).endsWith(`/${name}`)),
        name,
      );
  }));

test('a call that is not answered ends the run after its time, and what it may have created is deleted', () =>
  withServer(['creations are never answered'], async (server) => {
    await assert.rejects(run(server, { callTimeoutMs: 300 }), (error: Error) => {
      assert.ok(error instanceof CallError, String(error));
      assert.match(error.message, /^POST \/api\/v1\/boxes was not answered within 300 ms$/);
      return true;
    });
    assert.deepEqual(server.names(), ['first']);
  }));

test('an interrupted run deletes what it created', () =>
  withServer([], async (server) => {
    const interrupted = new AbortController();
    void server
      .next('PATCH')
      .then(() => server.next('PATCH'))
      .then(() => interrupted.abort());
    await assert.rejects(
      run(server, { signal: interrupted.signal }),
      (error: Error) => !(error instanceof LeftObjectsError),
    );
    assert.deepEqual(server.names(), ['first']);
  }));

test('collections whose objects have names are exercised, and none whose objects have ids', () => {
  const schema = { type: 'object', properties: { name: { type: 'string' } } };
  const requestBody = { content: { 'application/json': { schema } } };
  const pathsOf = (category: string, parameter: string) => ({
    [`/api/v1/${category}`]: { get: {}, post: { requestBody } },
    [`/api/v1/${category}/{${parameter}}`]: { get: {}, delete: {} },
  });
  const paths = { ...pathsOf('drafts', 'draftId'), ...pathsOf('boxes', 'box'), ...pathsOf('crates', 'crate_id') };
  for (let i = 0; i < 12; i++) Object.assign(paths, pathsOf(`kind${i}_parts`, 'part'));
  const found = subjectsOf({ openapi: '3.1.0', paths }, []).subjects.map(({ collection }) => collection);
  assert.deepEqual([found[0], found[1], found.length], ['/api/v1/boxes', '/api/v1/kind0_parts', 10]);
});

test('a service without a document is exercised as the options describe it', () =>
  withServer(['PATCH changes nothing'], async (server) => {
    const described = [
      { collection: '/api/v1/boxes', create: { name: '{name}', comment: 'of {name}' }, update: { comment: 'x' } },
    ];
    const result = await runLive({
      service: { baseUrl: server.url, authorization: `Bearer ${server.token}`, callTimeoutMs: deadlineMs(20_000) },
      subjects: subjectsOf(undefined, described),
      namespace: 'conform',
      taskTimeoutMs: deadlineMs(500),
      signal: new AbortController().signal,
      progress: () => undefined,
    });
    assert.deepEqual(broken(result), ['patch'], explained(result));
    assert.deepEqual(server.names(), ['first']);
  }));
