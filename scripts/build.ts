// Compiles src/ to dist/ for the package, because Node does not strip types under node_modules; with the types of the client and the console. npm runs
// it before packing; a clone runs src/ and needs no dist/.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const dist = join(root, 'dist');
const compiler = join(root, 'node_modules/typescript/bin/tsc');

// The console stays: a server may serve it, and it is built again only if its sources have changed.
if (existsSync(dist))
  for (const name of readdirSync(dist))
    if (!/^\.?console/.test(name)) rmSync(join(dist, name), { recursive: true, force: true });
// Programs read npm's output (npm pack --json), so the compiler's messages go to stderr.
for (const project of ['tsconfig.build.json', 'tsconfig.types.json'])
  execFileSync(process.execPath, [compiler, '-p', join(root, project)], { cwd: root, stdio: ['ignore', 2, 2] });
execFileSync(process.execPath, [join(root, 'scripts/build_console.ts')], { cwd: root, stdio: ['ignore', 2, 2] });

// The compiler rewrites imports; code that names the file of a child process must handle both extensions itself.
let problemCount = 0;
for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
  if (!name.endsWith('.js') || /^\.?console/.test(name)) continue;
  for (const [i, line] of readFileSync(join(dist, name), 'utf8').split('\n').entries()) {
    if (!/new URL\(['"`][^'"`]*\.ts['"`]/.test(line)) continue;
    console.error(`dist/${name}:${i + 1} names a .ts file, which the package does not have: ${line.trim()}`);
    problemCount++;
  }
}
if (problemCount > 0) process.exit(1);
