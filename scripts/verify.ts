// All checks that must pass before a change is submitted: format, lint, types, house rules, generated files, tests. All steps run,
// so that one run shows everything to fix. With --no-tests, the tests are left to `npm test`.
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

interface Step {
  readonly name: string;
  /** `node` or a program of node_modules/.bin, and its arguments. */
  readonly command: readonly string[];
  readonly mend: string;
}

const root = resolve(import.meta.dirname, '..');
const stepTimeoutMs = 25 * 60_000;

const checks: readonly Step[] = [
  {
    name: 'format and lint',
    command: ['biome', 'ci', '--error-on-warnings', `--colors=${process.stdout.isTTY ? 'force' : 'off'}`],
    mend: 'npm run format',
  },
  { name: 'types', command: ['tsc', '--noEmit', '-p', 'tsconfig.json'], mend: 'what the compiler names' },
  {
    name: 'types of the console',
    command: ['tsc', '--noEmit', '-p', 'console/tsconfig.json'],
    mend: 'what the compiler names',
  },
  { name: 'house rules', command: ['node', 'scripts/test.ts', 'tests/style'], mend: 'what the test names' },
  { name: 'configuration page', command: ['node', 'scripts/docs.ts', '--check'], mend: 'npm run generate' },
  { name: 'pages of commands', command: ['node', 'scripts/command_docs.ts', '--check'], mend: 'npm run generate' },
  {
    name: 'rules for documents',
    command: ['node', 'scripts/conformance_docs.ts', '--check'],
    mend: 'npm run generate',
  },
  { name: 'OpenAPI documents', command: ['node', 'scripts/openapi.ts', '--check'], mend: 'npm run generate' },
  { name: 'SBOM and notices', command: ['node', 'scripts/sbom.ts', '--check'], mend: 'npm run generate' },
  { name: 'generated sources', command: ['node', 'scripts/declarations.ts', '--check'], mend: 'npm run generate' },
  {
    name: 'OpenAPI lint',
    command: ['redocly', 'lint', 'openapi.json', 'openapi.client.json'],
    mend: 'the declarations that src/standard reads',
  },
];
const tests: Step = { name: 'tests', command: ['node', 'scripts/test.ts'], mend: 'what the tests name' };

const bin = resolve(root, 'node_modules/.bin');
// The linter must neither check for updates nor report usage.
const env = {
  ...process.env,
  PATH: `${bin}:${process.env.PATH}`,
  REDOCLY_TELEMETRY: 'off',
  REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true',
};

const failed: Step[] = [];
for (const step of process.argv.includes('--no-tests') ? checks : [...checks, tests]) {
  console.log(`\n== ${step.name}`);
  const [program = '', ...args] = step.command;
  const since = performance.now();
  const { status, error } = spawnSync(program === 'node' ? process.execPath : program, args, {
    cwd: root,
    env,
    stdio: 'inherit',
    timeout: stepTimeoutMs,
  });
  if (error) console.error(error.message);
  const seconds = ((performance.now() - since) / 1000).toFixed(1);
  console.log(`== ${step.name}: ${status === 0 ? 'good' : 'FAILED'} (${seconds} s)`);
  if (status !== 0) failed.push(step);
}
for (const { name, mend } of failed) console.error(`failed: ${name}; to mend: ${mend}`);
process.exitCode = failed.length > 0 ? 1 : 0;
