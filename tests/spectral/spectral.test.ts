// The rules in Spectral itself, as another service runs them: its command with a file of rules that extends ours. And public documents, whose
// findings were read one by one.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { lint } from '../../src/conformance/lint/rules.ts';
import { deadlineMs } from '../deadline.ts';

const here = fileURLToPath(new URL('./', import.meta.url));
const root = join(here, '../..');
const modules = join(here, 'node_modules');
const skip = existsSync(modules) ? false : 'Spectral is not installed: npm ci in tests/spectral';
const run = promisify(execFile);
let directory: string;

/** As the package has it: without types, in files that end in .js. */
function compileRuleset(to: string): void {
  const from = join(root, 'src/conformance');
  for (const name of readdirSync(from, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) continue;
    const target = join(to, name.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(target), { recursive: true });
    const text = stripTypeScriptTypes(readFileSync(join(from, name), 'utf8'));
    writeFileSync(target, text.replaceAll(/(from '\.[^']*)\.ts'/g, "$1.js'"));
  }
}

before(() => {
  directory = mkdtempSync(join(tmpdir(), 'tabularium-spectral-'));
  compileRuleset(join(directory, 'tabularium'));
  writeFileSync(join(directory, 'package.json'), '{"type": "module"}');
  writeFileSync(join(directory, '.spectral.yaml'), 'extends:\n  - ./tabularium/lint/ruleset.js\n');
});
after(() => rmSync(directory, { recursive: true, force: true }));

interface SpectralFinding {
  readonly code: string;
  readonly path: readonly string[];
  readonly source: string;
}

/** The findings of Spectral in documents, as `file rule #/pointer`. */
async function spectral(documents: readonly string[]): Promise<string[]> {
  const program = join(modules, '@stoplight/spectral-cli/dist/index.js');
  const words = ['lint', '--ruleset', join(directory, '.spectral.yaml'), '--format', 'json', '--quiet'];
  const options = { cwd: directory, timeout: deadlineMs(60_000), maxBuffer: 64 * 1024 * 1024 };
  // Findings are its exit code 1.
  const { stdout } = await run(process.execPath, [program, ...words, ...documents], options).catch(
    (error: { code: unknown; stdout: string; stderr: string }) => {
      assert.equal(error.code, 1, error.stderr);
      return error;
    },
  );
  return (JSON.parse(stdout) as SpectralFinding[])
    .map(({ code, path, source }) => {
      const pointer = path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
      return `${relative(root, source)} ${code} #${pointer}`;
    })
    .sort();
}

const documentOf = (path: string): unknown => parse(readFileSync(path, 'utf8'));

describe('Spectral with the ruleset', { skip }, () => {
  it('has the same findings as openapi lint, and none in our document', async () => {
    const planted = join(root, 'tests/rest_standard/documents');
    const paths = [...readdirSync(planted).map((name) => join(planted, name)), join(root, 'openapi.json')];
    const expected = paths.flatMap((path) =>
      lint(documentOf(path)).map(({ rule, pointer }) => `${relative(root, path)} ${rule.id} ${pointer}`),
    );
    assert.ok(expected.length > 40);
    assert.deepEqual(await spectral(paths), expected.sort());
  });
});
