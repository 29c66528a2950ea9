// The house rules that a program can check: sizes, names, opening comments, words that must not be in the repository, and a
// page in docs/decisions for each dependency.
import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { describe, it } from 'node:test';
import { filesUnder, readSources, textOf } from './source_tree.ts';

const fileLinesMax = 599;
const functionLinesMax = 79;
const openingLinesMax = 5;
/** `as`, `!`, `any` and the like. It only ever goes down. */
const typeEscapesMax = 5;
/** Files known to be longer, with what they may not outgrow. A limit here only ever goes down. */
const longFiles: Readonly<Record<string, number>> = {};
const longFunctions: Readonly<Record<string, number>> = {};

const bannedNames = /(^|_)(utils?|helpers?|common|managers?|services?|base|misc|shared|stuff)(_|\.|$)/;
const snakeCase = /^[a-z][a-z0-9_]*(\.test)?\.tsx?$/;

const sources = readSources();
const programs = [...sources.map(({ path }) => path), ...filesUnder('bin/*.js')];
const styleSheets = filesUnder('console/**/*.css');
const texts = filesUnder(
  '{src,tests,bench,scripts,bin,docs,demo,console,.ci}/**/*.{ts,tsx,js,mjs,json,md,sql,html,css,yaml,yml}',
  '.ci/*',
  'deploy/{Dockerfile,*.*}',
  'deploy/**/*.{yaml,xml,sh,json,tpl,txt,sql,conf}',
  '*.{md,json,yaml}',
  '.npmrc',
).filter((path) => !/package-lock\.json$|^openapi\.(client\.)?json$/.test(path));

function assertNone(places: readonly string[], advice: string): void {
  if (places.length > 0) assert.fail(`${advice}\n${places.join('\n')}`);
}

function linesWith(pattern: RegExp, paths: readonly string[]): string[] {
  return paths.flatMap((path) =>
    textOf(path)
      .split('\n')
      .flatMap((line, i) => (pattern.test(line) ? [`${path}:${i + 1}: ${line.trim().slice(0, 120)}`] : [])),
  );
}

describe('files', () => {
  it(`are at most ${fileLinesMax} lines long`, () => {
    const places = programs.flatMap((path) => {
      const lines = textOf(path).trimEnd().split('\n').length;
      return lines > (longFiles[path] ?? fileLinesMax) ? [`${path}: ${lines} lines`] : [];
    });
    assertNone(places, 'a file that long owns two things: give the second a file of its own:');
  });

  it('are named after the noun that they own, in snake_case', () => {
    const sheetCase = /^[a-z][a-z0-9_]*(\.module)?\.css$/;
    const names = [
      ...sources.map(({ path }) => ({ path, form: snakeCase })),
      ...styleSheets.map((path) => ({ path, form: sheetCase })),
    ];
    const places = names
      .filter(({ path, form }) => bannedNames.test(basename(path)) || !form.test(basename(path)))
      .map(({ path }) => path);
    assertNone(places, 'name what it owns:');
  });

  it('begin with what they own and what they leave to others', () => {
    const places = programs.flatMap((path) => {
      const lines = textOf(path)
        .replace(/^#!.*\n/, '')
        .replace(/^(\/\* biome-ignore.*\n)+/, '')
        .split('\n');
      const opening = lines.findIndex((line) => !line.startsWith('//'));
      return opening < 1 || opening > openingLinesMax ? [`${path}: ${opening} lines`] : [];
    });
    assertNone(places, `open each file with 1 to ${openingLinesMax} lines of comment:`);
  });
});

describe('functions', () => {
  it(`are at most ${functionLinesMax} lines long`, () => {
    const places = sources.flatMap(({ path, functions }) =>
      functions
        // A suite is a list of cases in the shape of a function.
        .filter(({ isExpression }) => !(isExpression && path.startsWith('tests/')))
        .filter(({ name, lines }) => lines > (longFunctions[`${path} ${name}`] ?? functionLinesMax))
        .map(({ name, line, lines }) => `${path}:${line} ${name}: ${lines} lines`),
    );
    assertNone(places, 'give a step of it a name:');
  });
});

describe('types', () => {
  it(`are escaped at most ${typeEscapesMax} times in the declarations and their handlers`, () => {
    const places = sources
      .filter(({ path }) => /^src\/(api|resources)\//.test(path))
      .flatMap(({ path, typeEscapes, text }) => [
        ...typeEscapes.map(({ text: code, line }) => `${path}:${line}: ${code.replace(/\s+/g, ' ').slice(-100)}`),
        ...[...text.matchAll(/@ts-\w+/g)].map(([directive]) => `${path}: ${directive}`),
      ]);
    if (places.length > typeEscapesMax) assertNone(places, 'let the compiler see the type: type what gives the value:');
  });
});

// The patterns are written so that they do not find themselves.
describe('words', () => {
  const rules: [string, RegExp, readonly string[]][] = [
    ['work that is left undone', /\b(TO[D]O|FIX[M]E|XX[X]|HAC[K])\b/, texts],
    ['a way round the types', /@ts-(ignor[e]|nochec[k])/, programs],
    ['a path of somebody’s machine', /(?<![\w.}])\/(?:work|home|root|Users)\/\w/, texts],
    ['the host of a package registry', /\bregistry\.[a-z]+js\.\w+|[_:]authToken/, texts],
  ];
  for (const [description, pattern, paths] of rules)
    it(`the repository has no line with ${description}`, () => assertNone(linesWith(pattern, paths), 'remove:'));
});

for (const directory of ['', 'tests/clients/', 'tests/spectral/', 'tests/engines/clickhouse/ring/'])
  describe(`dependencies in ${directory}package.json`, () => {
    const manifest = JSON.parse(textOf(`${directory}package.json`)) as Record<string, Record<string, string>>;
    const lock = JSON.parse(textOf(`${directory}package-lock.json`)) as {
      packages: Record<string, { resolved?: string; integrity?: string; hasInstallScript?: boolean }>;
    };
    /** Scripts do not run where `.npmrc` says so. */
    const ignoresScripts = /^ignore-scripts=true$/m.test(textOf(`${directory}.npmrc`));
    const kinds = ['dependencies', 'optionalDependencies', 'devDependencies'];
    const names = kinds.flatMap((kind) => Object.keys(manifest[kind] ?? {}));
    /** A page names what it decides on in its first lines. */
    const headings = filesUnder('docs/decisions/*.md').map((path) => textOf(path).split('\n').slice(0, 4).join('\n'));

    for (const name of names)
      it(`${name} has a page in docs/decisions`, () =>
        assert.ok(
          headings.some((heading) => heading.includes(`\`${name}\``)),
          `write docs/decisions/<name>.md with \`${name}\` in its first lines: its purpose, why our own code would not do, and when to drop it`,
        ));

    it('are at exact versions', () => {
      for (const kind of kinds)
        for (const [name, version] of Object.entries(manifest[kind] ?? {}))
          assert.match(version, /^\d+\.\d+\.\d+(-[\w.]+)?$/, name);
    });

    it('use the configured registry, and run nothing when they are installed', () => {
      const packages = Object.entries(lock.packages);
      assertNone(
        packages.filter(([, { resolved }]) => resolved !== undefined).map(([path]) => path),
        'package-lock.json names addresses; .npmrc (omit-lockfile-registry-resolved) keeps them out:',
      );
      assertNone(
        // Our own is `bin/trim.js`.
        packages
          .filter(([path, { hasInstallScript }]) => path !== '' && hasInstallScript && !ignoresScripts)
          .map(([path]) => path),
        'these packages run a script when they are installed:',
      );
    });

    it('have the digest of their package in the lock file', () => {
      const packages = Object.entries(lock.packages).filter(([path]) => path !== '');
      assertNone(
        packages.filter(([, { integrity }]) => !integrity).map(([path]) => path),
        'the registry does not have these packages: choose a version that is published for every platform:',
      );
    });
  });
