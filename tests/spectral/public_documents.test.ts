// Public OpenAPI documents, whose findings were read one by one: docs/lint_rules.md says what they are. A rule that begins to find more in
// them, or less, has changed what it means.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { lint } from '../../src/conformance/lint/rules.ts';

const modules = fileURLToPath(new URL('./node_modules/', import.meta.url));
const skip = existsSync(modules) ? false : 'the documents are not installed: npm ci in tests/spectral';

const expected: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  '@readme/oas-examples/3.0/json/petstore.json': {
    'path-form': 14,
    'path-order': 1,
    'category-plural': 3,
    'method-status': 8,
    'body-json': 2,
    'response-json': 7,
    envelope: 8,
    'header-names': 3,
  },
  '@readme/oas-examples/3.0/json/uspto.json': { 'path-form': 3, 'path-order': 2, 'body-json': 1, envelope: 4 },
  '@scalar/galaxy/dist/3.1.yaml': {
    'path-form': 7,
    'category-case': 1,
    'category-plural': 3,
    'method-status': 1,
    'status-closed': 4,
    'body-json': 1,
    'response-json': 15,
    envelope: 13,
    'created-uri': 2,
    'header-names': 10,
    'credentials-place': 1,
  },
};

describe('the findings in public documents', { skip }, () => {
  for (const [path, counts] of Object.entries(expected))
    it(path, () => {
      const findings = Map.groupBy(lint(parse(readFileSync(`${modules}${path}`, 'utf8'))), ({ rule }) => rule.id);
      const found = Object.fromEntries([...findings].map(([id, list]) => [id, list.length]));
      assert.deepEqual(found, counts);
    });
});
