// Compiles src/ to dist/ for the package: Node does not strip types under node_modules. Run by npm before it packs; a clone
// runs src/ as it is and needs no dist/.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const dist = join(root, 'dist');
/** `rewriteRelativeImportExtensions` rewrites imports; the path of a worker or child process is up to its author. */
const sourcePathPattern = /['"`][^'"`\n]*\.ts['"`]/;

rmSync(dist, { recursive: true, force: true });
// npm's output is read by programs (npm pack --json), so what the compiler says goes to stderr.
execFileSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'tsconfig.build.json')],
  {
    cwd: root,
    stdio: ['ignore', 2, 2],
  },
);

let bad = 0;
for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
  if (!name.endsWith('.js')) continue;
  for (const [i, line] of readFileSync(join(dist, name), 'utf8').split('\n').entries()) {
    // Dynamic imports are rewritten when they run, by what the compiler puts there.
    const code = line.replace(/__rewriteRelativeImportExtension\('[^']*'/g, '').replace(/\/\/.*|^\s*\*.*/, '');
    if (!sourcePathPattern.test(code)) continue;
    console.error(`dist/${name}:${i + 1} names a .ts file, which the package does not have: ${line.trim()}`);
    bad++;
  }
}
if (bad > 0) process.exit(1);
