// `openapi lint` as a process: formats, exit codes, and documents from files, URLs and the standard input, bounded in bytes and time.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readDocument } from '../../src/cli/remote/conformance/document_source.ts';
import type { CommandError } from '../../src/cli/remote/exit_codes.ts';
import { rules } from '../../src/conformance/lint/rules.ts';
import { type CommandLine, newCommandLine } from '../cli/remote/command_process.ts';

const documents = fileURLToPath(new URL('./documents/', import.meta.url));
const good = fileURLToPath(new URL('../../openapi.json', import.meta.url));
let line: CommandLine;
before(() => {
  line = newCommandLine();
});
after(() => line.remove());

async function serving<T>(listener: RequestListener, use: (url: string) => Promise<T>): Promise<T> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('text has the line of each finding, and the sentence that it is about; the exit code says that there are some', async () => {
  const path = join(documents, 'parameters.yaml');
  const { code, stdout, stderr } = await line.run(['openapi', 'lint', path]);
  assert.deepEqual([code, stderr], [6, '']);
  const yaml = readFileSync(path, 'utf8').split('\n');
  const at = yaml.findIndex((text) => text.startsWith('    get:')) + 1;
  assert.match(
    stdout,
    new RegExp(`parameters\\.yaml:${at}:5: query-max: GET /api/v1/trips has 3 query parameters \\(from, to, sort\\)`),
  );
  assert.match(stdout, /^ {4}A5: Never query and body on the same API\.$/m);
  assert.match(stdout, new RegExp(`: 5 findings of 4 rules, ${rules.length - 4} rules kept\n$`));
});

test('a document that keeps the rules is 0; rules are selected by their ids', async () => {
  const kept = await line.run(['openapi', 'lint', good]);
  assert.deepEqual([kept.code, kept.stderr], [0, '']);
  const [note = '', ...summary] = kept.stdout.split('\n');
  assert.match(note, /^note: body-json: application\/sql is accepted beside application\/json by /);
  assert.deepEqual(summary, [`${good}: ${rules.length} rules kept`, '']);
  const path = join(documents, 'parameters.yaml');
  const skip = ['query-max', 'query-with-body', 'path-parameters', 'body-json'];
  assert.equal((await line.run(['openapi', 'lint', path, '--skip', ...skip])).code, 0);
  const only = await line.run(['openapi', 'lint', path, '--only', 'query-max']);
  assert.match(only.stdout, /: 1 finding of 1 rule, 0 rules kept\n$/);
});

test('JSON and JUnit have all rules', async () => {
  const path = join(documents, 'fields.json');
  const json = await line.run(['openapi', 'lint', path, '--json']);
  assert.equal(json.code, 6);
  const report = JSON.parse(json.stdout) as {
    findingCount: number;
    rules: { id: string; outcome: string; findings: { pointer: string; line: number }[] }[];
  };
  assert.equal(report.findingCount, 4);
  assert.deepEqual(
    report.rules.map(({ id }) => id),
    rules.map(({ id }) => id),
  );
  const camelCase = report.rules.find(({ id }) => id === 'camel-case');
  const zipCode = camelCase?.findings.find(
    ({ pointer }) => pointer === '#/components/schemas/Address/properties/ZipCode',
  );
  assert.match(readFileSync(path, 'utf8').split('\n')[(zipCode?.line ?? 0) - 1] ?? '', /"ZipCode"/);
  const junit = await line.run(['openapi', 'lint', path, '--format', 'junit']);
  assert.equal(junit.code, 6);
  assert.match(junit.stdout, new RegExp(`<testsuite name="[^"]*" tests="${rules.length}" failures="2" skipped="0">`));
  assert.equal(junit.stdout.match(/<testcase /g)?.length, rules.length);
  assert.match(junit.stdout, /the field &quot;first_name&quot; is not camelCase/);
  const list = await line.run(['openapi', 'rules', '--json']);
  assert.equal((JSON.parse(list.stdout) as unknown[]).length, rules.length);
});

test('a document comes from a URL or the standard input', async () => {
  const yaml = readFileSync(join(documents, 'uris.yaml'), 'utf8');
  const piped = await line.run(['openapi', 'lint', '-'], { input: yaml });
  assert.equal(piped.code, 6, piped.stderr);
  await serving(
    (_request, response) => response.end(yaml),
    async (url) => assert.equal((await line.run(['openapi', 'lint', `${url}/openapi.yaml`])).code, 6),
  );
});

test('what cannot be read is refused with what to do, before it fills the memory', async () => {
  const path = (name: string, text: string) => {
    writeFileSync(join(line.directory, name), text);
    return join(line.directory, name);
  };
  const bomb = `a: &a [x, x]\n${[...'bcdefghijklmnopqrstuvwxyz'].map((name, i) => `${name}: &${name} [${`*${String.fromCharCode(97 + i)}, `.repeat(8)}]`).join('\n')}\nopenapi: 3.1.0\n`;
  const cases: [string, number, RegExp][] = [
    ['missing.yaml', 2, /cannot be read \(it does not exist: check the path/],
    [path('empty.yaml', ''), 2, /is not an OpenAPI document/],
    [path('other.json', '{"a": 1}'), 2, /is not an OpenAPI document/],
    [path('broken.json', '{"openapi": "3.1.0", "a": [}'), 2, /is neither JSON nor YAML: .*line 1/],
    [path('bomb.yaml', bomb), 2, /is neither JSON nor YAML: /],
    [path('deep.json', `{"openapi": "3.1.0", "a": ${'['.repeat(200_000)}`), 2, /is neither JSON nor YAML: /],
    ['http://127.0.0.1:1/openapi.json', 3, /cannot be reached/],
  ];
  const refusal = (source: string) =>
    readDocument(source, new AbortController().signal).then(
      () => assert.fail(`${source} is read`),
      (error: CommandError) => [error.exitCode, error.message] as const,
    );
  for (const [source, code, message] of cases) {
    const [exitCode, text] = await refusal(source);
    assert.equal(exitCode, code, source);
    assert.match(text, message, source);
  }
  const endless: RequestListener = (_request, response) => {
    const chunk = Buffer.alloc(1024 * 1024, ' ');
    const more = () => {
      while (response.write(chunk));
    };
    response.on('drain', more);
    more();
  };
  await serving(endless, async (url) => {
    assert.deepEqual(await refusal(url), [2, `${url} is larger than 32 MiB, the most that is read`]);
  });
  await serving(
    (_request, response) => void response.writeHead(401).end(),
    async (url) => assert.match((await refusal(url))[1], /answered 401; download it/),
  );
  const ended = await line.run(['openapi', 'lint', 'missing.yaml', '--json']);
  assert.deepEqual([ended.code, ended.stdout], [2, '']);
  assert.match((JSON.parse(ended.stderr) as { message: string }).message, /^the file missing\.yaml cannot be read/);
});
