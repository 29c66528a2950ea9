// Landlock: the paths that a process and all that it becomes can open, whatever user it runs as; no TCP, no abstract sockets of others.
import { closeSync, existsSync, openSync, statSync } from 'node:fs';
import { type SystemCalls, setNoNewPrivileges } from './system_calls.ts';

export interface LandlockPaths {
  /** Files, or directories with all below them. Those that do not exist, as in a root of its own, are passed over. */
  readonly readable: readonly string[];
  /** Directories; what is below them can be read, written, made and removed. */
  readonly writable: readonly string[];
  /** Files that can be written, and are not made or removed. */
  readonly devices: readonly string[];
  readonly executable: readonly string[];
}

const createRuleset = 444;
const addRule = 445;
const restrictSelf = 446;
const pathBeneath = 1;
const askVersion = 1;

/** Before it no file can be renamed into another directory. */
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

/** Of the calling thread and all that it starts. Throws where the kernel does not have it. */
export function applyLandlock({ call }: SystemCalls, paths: LandlockPaths): void {
  const version = versionOf(call);
  if (version < oldestVersion) throw new Error(`the kernel has version ${version}, and ${oldestVersion} is needed`);
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
    throw new Error('the kernel does not have it, or it is turned off');
  }
}
