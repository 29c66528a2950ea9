// Builds the console (console/, with Vite) into dist/console/, as Brotli and gzip variants of each file; only
// what is sent as it is, or changed by the server, is not compressed. A build with the same sources is not repeated, unless --force is given. Without Vite, as after `npm ci --omit=dev`, it does nothing.
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = resolve(import.meta.dirname, '..');
const outDirectory = join(root, 'dist/console');
const stampFile = join(outDirectory, '.stamp');
/** What the build reads: the console, what it imports from src/, and the versions of its packages. */
const sources = [
  'console/**/*',
  'src/{client,api,model,standard}/**/*.ts',
  'package-lock.json',
  'scripts/build_console.ts',
];
/** Longer than a build on a slow machine. */
const lockMsMax = 300_000;
const lockPollMs = 200;
const compressedExtensions = /\.(js|css|svg|html|json|md)$/;

function stampOfSources(): string {
  const hash = createHash('sha256');
  for (const path of globSync(sources, { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort())
    hash.update(path.slice(root.length)).update(readFileSync(path));
  return hash.digest('hex');
}

const isBuilt = (stamp: string): boolean => existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp;

/** Builds beside the old files and then replaces them, because a running server may serve these. */
async function build(stamp: string): Promise<void> {
  const { build: buildWithVite } = await import('vite');
  const newDirectory = join(root, `dist/.console-${process.pid}`);
  try {
    await buildWithVite({
      configFile: join(root, 'console/vite_config.ts'),
      logLevel: 'warn',
      build: { outDir: newDirectory },
    });
    for (const name of globSync('**/*', { cwd: newDirectory })) {
      if (!compressedExtensions.test(name)) continue;
      const bytes = readFileSync(join(newDirectory, name));
      const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
      writeFileSync(join(newDirectory, `${name}.br`), brotliCompressSync(bytes, { params }));
      writeFileSync(join(newDirectory, `${name}.gz`), gzipSync(bytes, { level: 9 }));
      // The few clients that accept no compression get the decompressed gzip variant.
      if (name.startsWith('assets/')) rmSync(join(newDirectory, name));
    }
    writeFileSync(join(newDirectory, '.stamp'), stamp);
    rmSync(outDirectory, { recursive: true, force: true });
    mkdirSync(join(root, 'dist'), { recursive: true });
    renameSync(newDirectory, outDirectory);
  } finally {
    rmSync(newDirectory, { recursive: true, force: true });
  }
}

/** Builds one at a time: files of tests that begin together ask for the same. A lock of a process that was killed is taken over. */
async function withLock(work: () => Promise<void>): Promise<void> {
  const lock = join(root, 'dist/.console-lock');
  mkdirSync(join(root, 'dist'), { recursive: true });
  for (;;) {
    try {
      mkdirSync(lock);
      break;
    } catch {
      const ageMs = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
      if (ageMs > lockMsMax) rmSync(lock, { recursive: true, force: true });
      await sleep(lockPollMs);
    }
  }
  try {
    await work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

const stamp = stampOfSources();
const isForced = process.argv.includes('--force');
if (!existsSync(join(root, 'node_modules/vite'))) {
  console.error('the console is not built: Vite, a development dependency, is not installed');
} else if (isForced || !isBuilt(stamp)) {
  // Vite prints to stdout, which programs read as the output of npm pack.
  console.log = console.error;
  console.info = console.error;
  await withLock(async () => {
    if (isForced || !isBuilt(stamp)) await build(stamp);
  });
}
