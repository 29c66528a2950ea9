// The snippets of docs/client.md, in their order: they compile against the client's types and run against a real server.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { deadlineMs } from '../deadline.ts';
import { start } from '../server.ts';

const root = resolve(import.meta.dirname, '../..');
// Inside the project, for the types of Node.js.
const directory = mkdtempSync(join(root, '.client-snippets-'));
after(() => rmSync(directory, { recursive: true }));

test('the snippets of docs/client.md compile and run', async () => {
  const server = await start();
  try {
    const page = readFileSync(join(root, 'docs/client.md'), 'utf8');
    const snippets = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code as string);
    assert.equal(snippets.length, 7);
    const program = snippets
      .join('\n')
      .replace("'tabularium/client'", "'../src/client/index.ts'")
      .replace('http://127.0.0.1:8030', server.url);
    const file = join(directory, 'snippets.ts');
    writeFileSync(file, program);
    const project = join(directory, 'tsconfig.json');
    writeFileSync(project, JSON.stringify({ extends: '../tsconfig.json', include: ['snippets.ts'] }));
    const timeout = deadlineMs(60_000);
    execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', project], {
      timeout,
      stdio: 'inherit',
    });
    const env = { ...process.env, TOKEN: server.token };
    const { stdout } = await promisify(execFile)(process.execPath, [file], { env, timeout });
    for (const line of [
      '/api/v2/catalogs/default/databases/shop/tables/orders All orders 2',
      '1n 9.50',
      '2n 20.00',
      'ARROW1',
    ])
      assert.ok(stdout.split('\n').includes(line), stdout);
    assert.match(stdout, /^succeeded 1$/m);
    assert.match(stdout, /^OBJECT_NOT_FOUND notApplied false \S+$/m);
  } finally {
    await server.close();
  }
});
