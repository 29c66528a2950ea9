// Node's compile cache for the programs of the engine. Engine processes read it and never write it: otherwise code written by one
// engine would run in the next one, and in the server. It is filled by processes that load a program and do nothing else.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, readdir, stat, writeFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, sep } from 'node:path';

const fillTimeoutMs = 30_000;

/**
 * Returns the filled cache directory; undefined if the server has none or it cannot be filled. Without arguments and an IPC
 * channel, the programs only load.
 */
export async function compileCache(programs: readonly string[], env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const directory = process.env.NODE_COMPILE_CACHE;
  if (directory === undefined || !isAbsolute(directory)) return undefined;
  try {
    const marker = join(directory, `engine-${await fingerprintOf(programs)}`);
    const isFilled = await access(marker).then(
      () => true,
      () => false,
    );
    if (!isFilled) {
      for (const program of programs) await fill(program, { ...env, NODE_COMPILE_CACHE: directory });
      await writeFile(marker, '', { mode: 0o600 });
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

/** A fingerprint of this Node.js and of the files in the directory that contains the programs: in a clone of the repository they change. */
async function fingerprintOf(programs: readonly string[]): Promise<string> {
  const directory = commonDirectory(programs);
  const hash = createHash('sha256').update(`${process.version} ${process.arch} ${programs.join(' ')}`);
  for (const name of (await readdir(directory, { recursive: true })).sort()) {
    const { mtimeMs, size } = await stat(join(directory, name));
    hash.update(` ${name} ${mtimeMs} ${size}`);
  }
  return hash.digest('hex').slice(0, 32);
}

function commonDirectory(paths: readonly string[]): string {
  let directory = dirname(paths[0] as string);
  while (!paths.every((path) => path.startsWith(directory + sep))) directory = dirname(directory);
  return directory;
}
