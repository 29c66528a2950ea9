// Node's compile cache of the engine's programs. Engines read it and never write it: what one engine wrote would run in the next engine, and
// in the server. It is filled by processes that load a program and do nothing else.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, readdir, stat, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';

const fillTimeoutMs = 30_000;

/** The directory, filled; undefined where the server has none, or it cannot be filled. Run without arguments and a channel, the programs only load. */
export async function compileCache(programs: readonly string[], env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const directory = process.env.NODE_COMPILE_CACHE;
  if (directory === undefined || !isAbsolute(directory)) return undefined;
  try {
    const mark = join(directory, `engine-${await printOf(programs)}`);
    const isFilled = await access(mark).then(
      () => true,
      () => false,
    );
    if (!isFilled) {
      for (const program of programs) await fill(program, { ...env, NODE_COMPILE_CACHE: directory });
      await writeFile(mark, '', { mode: 0o600 });
    }
    return directory;
  } catch {
    return undefined;
  }
}

function fill(program: string, env: NodeJS.ProcessEnv): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [program], { env, timeout: fillTimeoutMs }, (error) =>
      error ? reject(error) : resolve(),
    );
  });
}

/** Of this Node and of the files beside the programs, which are in one directory: in a clone they change. */
async function printOf(programs: readonly string[]): Promise<string> {
  const directory = dirname(programs[0] as string);
  const hash = createHash('sha256').update(`${process.version} ${process.arch} ${programs.join(' ')}`);
  for (const name of (await readdir(directory)).sort()) {
    const { mtimeMs, size } = await stat(join(directory, name));
    hash.update(` ${name} ${mtimeMs} ${size}`);
  }
  return hash.digest('hex').slice(0, 32);
}
