// Checks openapi.client.json with tools that take too long for the tests: lints both documents with Spectral, then generates clients with
// openapi-generator in Go, Java and Python, and compiles them. Needs npx, Maven, Java, Go and Python.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const generatorVersion = '7.16.0';
const spectralVersion = '6.16.3';
const stepTimeoutMs = 15 * 60_000;

interface Step {
  readonly name: string;
  readonly command: readonly string[];
  /** Below the directory of the check. */
  readonly directory?: string;
}

const root = resolve(import.meta.dirname, '..');
const document = join(root, 'openapi.client.json');
const place = mkdtempSync(join(tmpdir(), 'tabularium-check-clients-'));
const rules = join(place, 'spectral.yaml');
writeFileSync(rules, 'extends: ["spectral:oas"]\n');
const jar = join(place, `openapi-generator-cli-${generatorVersion}.jar`);

const generate = (language: string, properties: readonly string[] = []): Step => ({
  name: `openapi-generator ${language}`,
  command: [
    'java',
    '-jar',
    jar,
    'generate',
    '-i',
    document,
    '-g',
    language,
    '-o',
    join(place, language),
    ...properties,
  ],
});

const steps: readonly Step[] = [
  {
    name: 'Spectral',
    command: [
      ...['npx', '--yes', '--ignore-scripts', '--package', `@stoplight/spectral-cli@${spectralVersion}`, 'spectral'],
      ...['lint', '--fail-severity', 'hint', '--ruleset', rules, document, join(root, 'openapi.json')],
    ],
  },
  {
    name: 'download of openapi-generator',
    command: [
      ...['mvn', '--batch-mode', '--quiet', 'dependency:copy', `-DoutputDirectory=${place}`],
      `-Dartifact=org.openapitools:openapi-generator-cli:${generatorVersion}`,
    ],
  },
  generate('go', ['--additional-properties=packageName=tabularium']),
  { name: 'dependencies of Go', command: ['go', 'mod', 'tidy'], directory: 'go' },
  { name: 'compilation of Go', command: ['go', 'build', './...'], directory: 'go' },
  generate('java', ['--additional-properties=library=native']),
  {
    name: 'compilation of Java',
    command: ['mvn', '--batch-mode', '--quiet', '-DskipTests', 'compile'],
    directory: 'java',
  },
  generate('python', ['--additional-properties=packageName=tabularium_client']),
  { name: 'virtual environment', command: ['python3', '-m', 'venv', join(place, 'venv')] },
  {
    name: 'dependencies of Python',
    command: [join(place, 'venv/bin/pip'), 'install', '--quiet', join(place, 'python')],
  },
  {
    name: 'import of Python',
    command: [join(place, 'venv/bin/python'), '-c', 'import tabularium_client; tabularium_client.TablesApi'],
  },
];

const failed: string[] = [];
try {
  for (const { name, command, directory = '' } of steps) {
    console.log(`\n== ${name}`);
    const [program = '', ...args] = command;
    const { status, error } = spawnSync(program, args, {
      cwd: join(place, directory),
      stdio: 'inherit',
      timeout: stepTimeoutMs,
    });
    if (error) console.error(error.message);
    console.log(`== ${name}: ${status === 0 ? 'good' : 'FAILED'}`);
    if (status !== 0) failed.push(name);
  }
} finally {
  rmSync(place, { recursive: true });
}
if (failed.length > 0) console.error(`failed: ${failed.join(', ')}`);
process.exitCode = failed.length > 0 ? 1 : 0;
