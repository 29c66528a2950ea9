// All checks that must pass before a change is submitted: format, lint, types, house rules, generated files, tests. All steps run,
// so that one run shows everything to fix. With --no-tests, the tests are left to `npm test`.
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

interface Step {
  readonly name: string;
  /** `node` or a program of node_modules/.bin, and its arguments. */
  readonly command: readonly string[];
  readonly mend: string;
}

const root = resolve(import.meta.dirname, '..');
const checkTimeoutMs = 25 * 60_000;
/** Most of them compute on one processor; the tests use all, and run on their own. */
const checksAtOnce = 2;

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

/** Shows its output when it has ended, because others run meanwhile; at once if it is alone. */
async function run(step: Step, isAlone = false): Promise<void> {
  const [program = '', ...args] = step.command;
  const since = performance.now();
  if (isAlone) console.log(`\n== ${step.name}`);
  const child = spawn(program === 'node' ? process.execPath : program, args, {
    cwd: root,
    env,
    stdio: isAlone ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    // The tests have a limit of their own, after which they name what has not ended.
    ...(isAlone ? {} : { timeout: checkTimeoutMs }),
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const status = await new Promise<number | null>((resolve) => {
    child.once('error', (error) => {
      output += `${error.message}\n`;
      resolve(null);
    });
    child.once('close', resolve);
  });
  if (!isAlone) console.log(`\n== ${step.name}`);
  const seconds = ((performance.now() - since) / 1000).toFixed(1);
  console.log(`${output}== ${step.name}: ${status === 0 ? 'good' : 'FAILED'} (${seconds} s)`);
  if (status !== 0) failed.push(step);
}

const left = [...checks];
const runEach = async (): Promise<void> => {
  for (let step = left.shift(); step !== undefined; step = left.shift()) await run(step);
};
await Promise.all(Array.from({ length: checksAtOnce }, runEach));
if (!process.argv.includes('--no-tests')) await run(tests, true);
for (const { name, mend } of failed) console.error(`failed: ${name}; to mend: ${mend}`);
process.exitCode = failed.length > 0 ? 1 : 0;
