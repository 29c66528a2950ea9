// Landlock: restricts the paths that a process and its descendants can open, whatever user they run as; no TCP, no abstract sockets
// of other processes.
import { closeSync, existsSync, openSync, statSync } from 'node:fs';
import { type SystemCalls, setNoNewPrivileges } from './system_calls.ts';

export interface LandlockPaths {
  /** Files, or directories with everything below them. Paths that do not exist, as in a separate root, are skipped. */
  readonly readable: readonly string[];
  /** Directories below which files can be read, written, created and removed. */
  readonly writable: readonly string[];
  /** Files that can be written, but not created or removed. */
  readonly devices: readonly string[];
  readonly executable: readonly string[];
}

const createRuleset = 444;
const addRule = 445;
const restrictSelf = 446;
const pathBeneath = 1;
const askVersion = 1;

/** Earlier versions do not allow renaming a file into another directory. */
const oldestVersion = 2;
const truncateVersion = 3;
const networkVersion = 4;
const deviceVersion = 5;
const scopeVersion = 6;

const right = {
  execute: 1 << 0,
  writeFile: 1 << 1,
  readFile: 1 << 2,
  readDirectory: 1 << 3,
  removeDirectory: 1 << 4,
  removeFile: 1 << 5,
  makeDirectory: 1 << 7,
  makeFile: 1 << 8,
  rename: 1 << 13,
  truncate: 1 << 14,
  controlDevice: 1 << 15,
} as const;
const allSinceVersion2 = (1 << 14) - 1;
const bindAndConnect = 0b11n;
const abstractSockets = 0b01n;

const read = right.readFile | right.readDirectory;
const write =
  read |
  right.writeFile |
  right.removeDirectory |
  right.removeFile |
  right.makeDirectory |
  right.makeFile |
  right.rename |
  right.truncate;

const pathOnly = 0o10000000;
const closeOnExec = 0o2000000;

/** Restricts the calling thread and everything that it starts. Throws if the kernel does not support Landlock. */
export function applyLandlock({ call }: SystemCalls, paths: LandlockPaths): void {
  const version = versionOf(call);
  if (version < oldestVersion)
    throw new Error(`the kernel supports Landlock version ${version}, but version ${oldestVersion} is required`);
  const handled =
    allSinceVersion2 |
    (version >= truncateVersion ? right.truncate : 0) |
    (version >= deviceVersion ? right.controlDevice : 0);
  const ruleset = Buffer.alloc(version >= scopeVersion ? 24 : version >= networkVersion ? 16 : 8);
  ruleset.writeBigUInt64LE(BigInt(handled), 0);
  if (ruleset.length > 8) ruleset.writeBigUInt64LE(bindAndConnect, 8);
  if (ruleset.length > 16) ruleset.writeBigUInt64LE(abstractSockets, 16);
  const rules = call(createRuleset, ruleset, ruleset.length, 0);
  try {
    const grant = (path: string, rights: number) => {
      const descriptor = openSync(path, pathOnly | closeOnExec);
      const rule = Buffer.alloc(12);
      rule.writeBigUInt64LE(BigInt(rights & handled), 0);
      rule.writeInt32LE(descriptor, 8);
      try {
        call(addRule, rules, pathBeneath, rule, 0);
      } finally {
        closeSync(descriptor);
      }
    };
    for (const path of paths.readable)
      if (existsSync(path)) grant(path, statSync(path).isDirectory() ? read : right.readFile);
    for (const path of paths.executable) grant(path, right.execute | right.readFile);
    for (const path of paths.devices) grant(path, right.readFile | right.writeFile);
    for (const path of paths.writable) grant(path, write);
    setNoNewPrivileges(call);
    call(restrictSelf, rules, 0);
  } finally {
    closeSync(rules);
  }
}

function versionOf(call: SystemCalls['call']): number {
  try {
    return call(createRuleset, 0, 0, askVersion);
  } catch {
    throw new Error('the kernel does not support Landlock, or it is disabled');
  }
}
