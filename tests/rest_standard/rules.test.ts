// The rules for OpenAPI documents: their examples, ten documents with planted faults, our own document, and the sentences that they cite.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it, test } from 'node:test';
import { parse } from 'yaml';
import { clauses } from '../../src/conformance/clauses.ts';
import { isPlural } from '../../src/conformance/document/plural.ts';
import { findingsOf, lint, notesOf, rules } from '../../src/conformance/lint/rules.ts';

const root = new URL('../../', import.meta.url);
const textOf = (path: string) => readFileSync(new URL(path, root), 'utf8');

interface Planted {
  readonly rule: string;
  readonly pointer: string;
}
const found = (document: unknown): string[] =>
  lint(document)
    .map(({ rule, pointer }) => `${rule.id} ${pointer}`)
    .sort();

describe('documents with planted faults', () => {
  const directory = 'tests/rest_standard/documents/';
  const names = readdirSync(new URL(directory, root));
  const plantedRules = new Set<string>();
  for (const name of names)
    it(`${name}: exactly these are found`, () => {
      const document = parse(textOf(`${directory}${name}`)) as { readonly 'x-planted': readonly Planted[] };
      const planted = document['x-planted'].map(({ rule, pointer }) => `${rule} ${pointer}`).sort();
      for (const { rule } of document['x-planted']) plantedRules.add(rule);
      assert.deepEqual(found(document), planted);
    });
  it('are ten, and have a fault of each rule', () => {
    assert.equal(names.length, 10);
    assert.deepEqual(
      rules.map(({ id }) => id).filter((id) => !plantedRules.has(id)),
      [],
    );
  });
});

describe('the examples of a rule', () => {
  for (const { id, good, bad } of rules)
    it(id, () => {
      assert.deepEqual(found(parse(good)), []);
      const ids = lint(parse(bad)).map(({ rule }) => rule.id);
      assert.deepEqual([...new Set(ids)], [id]);
    });
});

test('the documents of this server keep every rule', () => {
  for (const name of ['openapi.json', 'openapi.client.json'])
    assert.deepEqual(found(JSON.parse(textOf(name))), [], name);
});

test('media types beside JSON are noted, and only JSON that cannot be sent is a finding', () => {
  const rule = rules.find(({ id }) => id === 'body-json');
  assert.ok(rule);
  const contentOf = (...types: readonly string[]) => ({
    openapi: '3.1.0',
    paths: {
      '/api/v1/tables/{table}/load': {
        post: { requestBody: { content: Object.fromEntries(types.map((type) => [type, { schema: {} }])) } },
      },
    },
  });
  const judged = (...types: readonly string[]) => [
    findingsOf(rule, contentOf(...types)).length,
    notesOf(rule, contentOf(...types)).length,
  ];
  assert.deepEqual(judged('application/json'), [0, 0]);
  assert.deepEqual(judged('application/json; charset=utf-8'), [0, 0]);
  assert.deepEqual(judged('application/json', 'application/sql', 'text/csv'), [0, 2]);
  assert.deepEqual(judged('*/*'), [0, 1]);
  assert.deepEqual(judged('application/sql'), [1, 0]);
  assert.deepEqual(judged('application/vnd.api+json'), [1, 0]);
  const own = notesOf(rule, JSON.parse(textOf('openapi.json')));
  assert.match(
    own.join('\n'),
    /^application\/sql is accepted beside application\/json by .* the standard names only application\/json$/,
  );
});

test('a rule cites sentences of the published standard, and nothing else', () => {
  const standard = textOf('docs/rest_standard.md');
  for (const [name, { section, text }] of Object.entries(clauses)) {
    const place = standard.indexOf(`## ${section} `);
    const end = standard.indexOf('\n## ', place + 1);
    assert.ok(place >= 0 && standard.slice(place, end < 0 ? undefined : end).includes(text), `${name}: ${text}`);
  }
  for (const { id, clauses: cited } of rules) assert.ok(cited.length > 0, id);
});

test('a document that is damaged or goes round in circles is read to its end', () => {
  const circle = {
    openapi: '3.1.0',
    paths: { '/api/v1/tables': { get: { responses: { 200: { $ref: '#/a' } } } } },
    a: { $ref: '#/a' },
  };
  assert.deepEqual(found(circle), []);
  const elsewhere = {
    openapi: '3.1.0',
    paths: {
      '/api/v1/tables/{table}': {
        get: {
          parameters: [{ $ref: 'parameters.yaml#/table' }],
          responses: { 200: { $ref: 'responses.yaml#/table' } },
        },
        delete: { $ref: 'operations.yaml#/delete' },
      },
      '/api/v1/tables/{table}/rename': { post: { $ref: 'operations.yaml#/rename' } },
      '/api/v1/table': { $ref: 'paths.yaml' },
    },
  };
  assert.deepEqual(found(elsewhere), [], 'what is in other documents is not judged');
  const self: { schema: unknown } = {
    schema: {
      type: 'object',
      allOf: [{ $ref: '#/components/schemas/A' }],
      properties: { next: { $ref: '#/components/schemas/A' } },
    },
  };
  const recursive = {
    openapi: '3.1.0',
    paths: {
      '/api/v1/tables': {
        get: {
          responses: { 200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/A' } } } } },
        },
      },
    },
    components: { schemas: { A: self.schema } },
  };
  assert.ok(lint(recursive).every(({ rule }) => rule.id === 'envelope'));
  for (const value of [
    { openapi: '3.1.0' },
    { openapi: '3.0.0', paths: [] },
    {
      openapi: '3.0.0',
      paths: { '/api/v1/tables': null, 'x-y': 1, '/api/v1/rows': { get: 3, post: { responses: [], parameters: 'a' } } },
    },
    { swagger: '2.0', paths: { '/a': { get: { parameters: [null, 3, {}], responses: { 200: null } } } } },
    { openapi: '3.1.0', servers: [{ url: 3 }], components: { securitySchemes: { a: null } }, paths: {} },
  ])
    assert.ok(Array.isArray(lint(value)));
});

test('plurals, in doubt, are plurals', () => {
  const plural =
    'tables databases indices vertices people audit_events saved_queries queries data media criteria series buses statuses addresses savedQueries 1-clicks';
  const singular = 'table status address access process analysis query person child sub_process feedback';
  assert.deepEqual(
    plural.split(' ').filter((word) => !isPlural(word)),
    [],
  );
  assert.deepEqual(singular.split(' ').filter(isPlural), []);
});
