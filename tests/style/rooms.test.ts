// The directories of ARCHITECTURE.md: imports run downwards only, without circles; HTTP and each engine stay in their directory.
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { describe, it } from 'node:test';
import { filesUnder, readSources, type Source } from './source_tree.ts';

/** From the top down; a room may import its own level and those below. */
const levels = [
  ['resources'],
  ['jobs'],
  ['http', 'query', 'catalog', 'backups', 'moves', 'holds'],
  ['access', 'tasks', 'engines', 'files', 'outbound'],
  ['store', 'client'],
  ['api'],
  ['standard', 'model', 'observe', 'operator'],
];
const levelOf = new Map(levels.flatMap((rooms, level) => rooms.map((room) => [room, level] as const)));
/** Directories outside the levels. `main`, with `assembly`, may import everything. */
const siblingRooms: Readonly<Record<string, readonly string[]>> = {
  cli: [
    'demo',
    'backups',
    'outbound',
    'access',
    'store',
    'client',
    'api',
    'conformance',
    'standard',
    'model',
    'observe',
    'operator',
    'settings',
  ],
  conformance: [],
  demo: ['client', 'standard', 'model'],
  settings: ['operator'],
};
const httpPackages = [
  'node:http',
  'node:https',
  'node:http2',
  'http',
  'https',
  'http2',
  'hono',
  'fastify',
  'express',
  'koa',
  'undici',
];
/** Directories that connect to others. */
const httpRooms = ['src/http/', 'src/outbound/', 'src/engines/clickhouse/connection/'];
const engineNames = ['duckdb', 'clickhouse'];
/** Names the files and servers that data comes from, whatever the engines of the server are. */
const sourcesOfImports = 'src/cli/remote/import/';
/** Files that a folder has of its own, without those in its subfolders: code, style sheets and images alike. */
const folderFilesMax = 20;

const sources = readSources();
const serverSources = sources.filter(({ path }) => path.startsWith('src/'));

function roomOf(path: string): string {
  if (path === 'src/main.ts' || path.startsWith('src/assembly/')) return 'main';
  return path.split('/')[1] ?? '';
}

function isAllowed(from: string, to: string): boolean {
  if (from === to || from === 'main') return true;
  if (siblingRooms[from]) return siblingRooms[from].includes(to);
  const [lower, higher] = [levelOf.get(from), levelOf.get(to)];
  return lower !== undefined && higher !== undefined && higher >= lower;
}

const locationOf = (source: Source, line: number): string => `${source.path}:${line}`;
/** Fails with the places, one a line, after what to do about them. */
function assertNone(places: readonly string[], advice: string): void {
  if (places.length > 0) assert.fail(`${advice}\n${places.join('\n')}`);
}

/** The first circle found from each file, as a list of paths; each circle once. */
function circles(files: readonly Source[]): string[] {
  const targets = new Map(files.map(({ path, imports }) => [path, imports.map(({ target }) => target)]));
  const visited = new Set<string>();
  const circles: string[] = [];
  const walk = (path: string, trail: string[]): void => {
    const firstIndex = trail.indexOf(path);
    if (firstIndex >= 0) circles.push([...trail.slice(firstIndex), path].join(' → '));
    if (firstIndex >= 0 || visited.has(path)) return;
    for (const target of targets.get(path) ?? []) walk(target, [...trail, path]);
    visited.add(path);
  };
  for (const { path } of files) walk(path, []);
  return circles;
}

describe('rooms', () => {
  it('are all known', () => {
    const knownRooms = ['main', ...Object.keys(siblingRooms), ...levelOf.keys()];
    assertNone(
      serverSources.filter(({ path }) => !knownRooms.includes(roomOf(path))).map(({ path }) => path),
      'a new room needs a level in this test and a line in ARCHITECTURE.md:',
    );
  });

  it('import only downwards', () => {
    const upward = serverSources.flatMap((source) =>
      source.imports
        .filter(({ target }) => target.startsWith('src/') && !isAllowed(roomOf(source.path), roomOf(target)))
        .map(({ target, line }) => `${locationOf(source, line)} imports ${target}`),
    );
    assertNone(upward, 'turn the dependency round (main hands it over), or move what both need down:');
  });

  it('import nothing outside src', () => {
    const outward = serverSources.flatMap((source) =>
      source.imports
        .filter(({ target }) => /^(\.\.|tests|bench|scripts|demo|bin)\//.test(target))
        .map(({ target, line }) => `${locationOf(source, line)} imports ${target}`),
    );
    assertNone(outward, 'the package has src only:');
  });

  it('have no import cycles', () => assertNone(circles(serverSources), 'move what both need to a file of its own:'));

  it(`have at most ${folderFilesMax} files of their own`, () => {
    const folders = Map.groupBy(filesUnder('{src,console/src}/**/*.*'), dirname);
    const places = [...folders]
      .filter(([, files]) => files.length > folderFilesMax)
      .map(([folder, files]) => `${folder}: ${files.length} files`);
    assertNone(places, 'split the folder by noun:');
  });
});

describe('the console', () => {
  const files = sources.filter(({ path }) => path.startsWith('console/src/'));
  /** What it may import of the server: the client, declarations that load in a browser, and the rows of the demo. */
  const fromServer = /^src\/((client|api|standard|model)\/|demo\/ssb_data\.ts$)/;
  const consoleRoomOf = (path: string): string => path.split('/')[2] ?? '';

  it('imports of src only what loads in a browser', () => {
    const places = files.flatMap((source) =>
      source.imports
        .filter(({ target }) => target.startsWith('node:') || (target.startsWith('src/') && !fromServer.test(target)))
        .map(({ target, line }) => `${locationOf(source, line)} imports ${target}`),
    );
    assertNone(places, 'speak to the server through src/client:');
  });

  it('has primitives that know no room', () => {
    const places = files
      .filter(({ path }) => consoleRoomOf(path) === 'ui')
      .flatMap((source) =>
        source.imports
          .filter(({ target }) => target.startsWith('console/src/') && consoleRoomOf(target) !== 'ui')
          .map(({ target, line }) => `${locationOf(source, line)} imports ${target}`),
      );
    assertNone(places, 'hand it over as a property:');
  });

  it('makes no HTML of text', () => {
    const places = files.flatMap((source) =>
      source.words
        .filter(({ text }) => /^(dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML)$/.test(text))
        .map(({ text, line }) => `${locationOf(source, line)} has ${text}`),
    );
    assertNone(places, 'names and values of the server are text:');
  });
});

describe('HTTP', () => {
  it('is used only where requests arrive and connections are made', () => {
    const places = serverSources.flatMap((source) =>
      source.imports
        .filter(({ target }) =>
          httpPackages.some(
            (name) => target === name || target.startsWith(`${name}/`) || target.startsWith(`@${name}/`),
          ),
        )
        .filter(() => !httpRooms.some((room) => source.path.startsWith(room)))
        .map(({ target, line }) => `${locationOf(source, line)} imports ${target}`),
    );
    assertNone(
      places,
      'answer with an outcome or a failure; clients use fetch; src/outbound and the connection of an engine connect to others:',
    );
  });

  it('is called by the client through functions that browsers have', () => {
    const places = serverSources
      .filter(({ path }) => path.startsWith('src/client/'))
      .flatMap((source) =>
        source.imports.filter(({ target }) => target.startsWith('node:')).map(({ line }) => locationOf(source, line)),
      );
    assertNone(places, 'src/client runs in browsers:');
  });
});

describe('engines', () => {
  for (const name of engineNames)
    it(`only src/engines/${name} and main.ts speak of ${name}`, () => {
      const places = serverSources
        .filter(({ path }) => path !== 'src/main.ts' && !path.startsWith(`src/engines/${name}/`))
        .filter(({ path }) => !path.startsWith(sourcesOfImports))
        .flatMap((source) => {
          const words = source.words.filter(({ text }) => text.toLowerCase().includes(name));
          return words.map(({ text, line }) => `${locationOf(source, line)} has ${text.slice(0, 60)}`);
        });
      assertNone(places, 'say what is wanted in the port (engines/port/) and let the adapter do it:');
    });

  for (const name of engineNames)
    it(`the suites of the port do not speak of ${name}`, () => {
      const places = sources
        .filter(({ path }) => path.startsWith('tests/conformance/'))
        .flatMap((source) => {
          const words = source.words.filter(({ text }) => text.toLowerCase().includes(name));
          return words.map(({ text, line }) => `${locationOf(source, line)} has ${text.slice(0, 60)}`);
        });
      assertNone(
        places,
        'take the engine from tests/engines/engine_under_test.ts; what only one engine does is tested in its directory there:',
      );
    });
});
