// Builds the console (console/, with Vite) and the documentation (documentation/) into dist/console/, as compressed variants of each file; only
// what is sent as it is, or changed by the server, is not compressed. A build with the same sources is not repeated, unless --force is given.
// Without Vite, as after `npm ci --omit=dev`, it does nothing.
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = resolve(import.meta.dirname, '..');
const outDirectory = join(root, 'dist/console');
const stampFile = join(outDirectory, '.stamp');
/** What the build reads: the console, what it imports from src/ and demo/, the written pages, and the versions of its packages. */
const sources = [
  'console/**/*',
  'README.md',
  'docs/*.md',
  'docs/images/*',
  'src/{client,api,model,standard}/**/*.ts',
  'src/demo/ssb_data.ts',
  'demo/ssb/**/*.sql',
  'package-lock.json',
  'scripts/{build_console,documentation/*}.ts',
];
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

function compress(directory: string, name: string): void {
  const file = join(directory, name);
  const bytes = readFileSync(file);
  const isDocumentation = name.startsWith('docs/');
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
  // The documentation has many small pages, of which one variant is enough.
  if (!isDocumentation) writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params }));
  writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
  // The few clients that accept no compression get the decompressed gzip variant.
  if (isDocumentation || name.startsWith('assets/')) rmSync(file);
}

/** Builds into a separate directory and then replaces the old files, because a running server may serve these. */
async function build(stamp: string): Promise<void> {
  const { build: buildWithVite } = await import('vite');
  const newDirectory = join(root, `dist/.console-${process.pid}`);
  try {
    await buildWithVite({
      configFile: join(root, 'console/vite_config.ts'),
      logLevel: 'warn',
      build: { outDir: newDirectory },
    });
    const { writeDocumentation } = await import('./documentation/site.ts');
    writeDocumentation(root, newDirectory);
    for (const name of globSync('**/*', { cwd: newDirectory }))
      if (compressedExtensions.test(name)) compress(newDirectory, name.replaceAll('\\', '/'));
    writeFileSync(join(newDirectory, '.stamp'), stamp);
    rmSync(outDirectory, { recursive: true, force: true });
    mkdirSync(join(root, 'dist'), { recursive: true });
    renameSync(newDirectory, outDirectory);
  } finally {
    rmSync(newDirectory, { recursive: true, force: true });
  }
}

/** The lock contains the id of the process that builds. */
function takeLock(lock: string): boolean {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  if (!isRunning(Number(readFileSync(lock, 'utf8')))) rmSync(lock, { force: true });
  return false;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Builds one at a time: test files that start together need the same build. The lock of a process that was killed is taken over. */
async function withLock(work: () => Promise<void>): Promise<void> {
  const lock = join(root, 'dist/.console-lock');
  mkdirSync(join(root, 'dist'), { recursive: true });
  while (!takeLock(lock)) await sleep(lockPollMs);
  try {
    await work();
  } finally {
    rmSync(lock, { force: true });
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
