// Checks openapi.client.json with tools that take too long for the tests: lints both documents with Spectral, then generates clients with
// openapi-generator in Go, Java and Python, compiles them, and runs a program with each that makes four calls to a server. Needs npx, Maven,
// Java 17, Go and Python.
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { isDeepStrictEqual } from 'node:util';
import { expectedCalls } from '../tests/clients/client_programs.ts';
import { start, type TestServer } from '../tests/server.ts';

/** The clients that 7.25.0 generates for Java do not compile: it has no type for values that are an array or an object. */
const generatorVersions = { go: '7.25.0', java: '7.16.0', python: '7.25.0' } as const;
const spectralVersion = '6.16.3';
const execPluginVersion = '3.5.0';
const stepTimeoutMs = 15 * 60_000;

interface Step {
  readonly name: string;
  readonly command: readonly string[];
  /** Below the directory of the check. */
  readonly directory?: string;
  /** It makes the four calls, and prints what it received as JSON. */
  readonly isProgram?: true;
}

const root = resolve(import.meta.dirname, '..');
const programs = join(root, 'tests/clients/programs');
const document = join(root, 'openapi.client.json');
const directory = mkdtempSync(join(tmpdir(), 'tabularium-check-clients-'));
const rules = join(directory, 'spectral.yaml');
const maven = ['mvn', '--batch-mode', '--quiet'] as const;

function generate(language: keyof typeof generatorVersions, properties: string): readonly Step[] {
  const version = generatorVersions[language];
  const jar = join(directory, `openapi-generator-cli-${version}.jar`);
  return [
    {
      name: `download of openapi-generator ${version}`,
      command: [
        ...[...maven, 'dependency:copy', `-DoutputDirectory=${directory}`],
        `-Dartifact=org.openapitools:openapi-generator-cli:${version}`,
      ],
    },
    {
      name: `openapi-generator ${language}`,
      command: [
        ...['java', '-jar', jar, 'generate', '-i', document, '-g', language, '-o', join(directory, language)],
        `--additional-properties=${properties}`,
      ],
    },
  ];
}

const python = join(directory, 'venv/bin/python');
const steps: readonly Step[] = [
  {
    name: 'Spectral',
    command: [
      ...['npx', '--yes', '--ignore-scripts', '--package', `@stoplight/spectral-cli@${spectralVersion}`, 'spectral'],
      ...['lint', '--fail-severity', 'hint', '--ruleset', rules, document, join(root, 'openapi.json')],
    ],
  },
  // By default, clients in Go refuse fields that later releases add.
  ...generate('go', 'packageName=tabularium,disallowAdditionalPropertiesIfNotPresent=false'),
  { name: 'dependencies of Go', command: ['go', 'mod', 'tidy'], directory: 'go' },
  { name: 'compilation of Go', command: ['go', 'build', './...'], directory: 'go' },
  { name: 'calls of Go', command: ['go', 'run', './cmd/calls'], directory: 'go', isProgram: true },
  ...generate('java', 'library=native'),
  { name: 'compilation of Java', command: [...maven, '-DskipTests', 'compile'], directory: 'java' },
  {
    name: 'calls of Java',
    command: [
      ...maven,
      `org.codehaus.mojo:exec-maven-plugin:${execPluginVersion}:java`,
      '-Dexec.mainClass=calls.Calls',
    ],
    directory: 'java',
    isProgram: true,
  },
  ...generate('python', 'packageName=tabularium_client'),
  { name: 'virtual environment', command: ['python3', '-m', 'venv', join(directory, 'venv')] },
  {
    name: 'dependencies of Python',
    command: [python, '-m', 'pip', 'install', '--quiet', join(directory, 'python')],
  },
  { name: 'calls of Python', command: [python, join(programs, 'calls.py')], isProgram: true },
];

async function hasPassed(
  { command, directory: subdirectory = '', isProgram }: Step,
  server: TestServer,
): Promise<boolean> {
  const [program = '', ...args] = command;
  const { table: TABLE } = expectedCalls;
  if (isProgram) (await server.delete(`/api/v2/databases/shop/tables/${TABLE}?purge=true`)).is(200);
  const child = spawn(program, args, {
    cwd: join(directory, subdirectory),
    env: { ...process.env, SERVER_URL: server.url, SERVER_TOKEN: server.token, TABLE },
    stdio: ['ignore', isProgram ? 'pipe' : 'inherit', 'inherit'],
    timeout: stepTimeoutMs,
  });
  const ended = new Promise<boolean>((resolve) => {
    child.once('error', (error) => {
      console.error(error.message);
      resolve(false);
    });
    child.once('close', (code) => resolve(code === 0));
  });
  const printed = child.stdout ? await text(child.stdout) : '';
  if (!(await ended)) return false;
  if (!isProgram) return true;
  console.log(printed.trim());
  // Maven colors its output, even if there is none.
  return isDeepStrictEqual(
    JSON.parse(printed.slice(printed.indexOf('{'), printed.lastIndexOf('}') + 1)),
    expectedCalls,
  );
}

const failed: string[] = [];
const server = await start();
try {
  (await server.put('/api/v2/databases/shop')).is(201);
  writeFileSync(rules, 'extends: ["spectral:oas"]\n');
  cpSync(join(programs, 'calls.go'), join(directory, 'go/cmd/calls/main.go'));
  cpSync(join(programs, 'Calls.java'), join(directory, 'java/src/main/java/calls/Calls.java'));
  for (const step of steps) {
    console.log(`\n== ${step.name}`);
    const isGood = await hasPassed(step, server);
    console.log(`== ${step.name}: ${isGood ? 'good' : 'FAILED'}`);
    if (!isGood) failed.push(step.name);
  }
} finally {
  await server.close();
  rmSync(directory, { recursive: true, force: true });
}
if (failed.length > 0) console.error(`failed: ${failed.join(', ')}`);
process.exitCode = failed.length > 0 ? 1 : 0;
