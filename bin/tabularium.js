#!/usr/bin/env node
/* biome-ignore-all lint/style/useNodejsImportProtocol: Node 12 does not know it */
// The command `tabularium`, and `npm start`: runs src/main.ts in a Node that is new enough (runtime.js finds it), with
// the same arguments. Plain JavaScript that Node 12 can parse. See src/cli/commands.ts for the commands.
'use strict';

const fs = require('fs');
const path = require('path');
const runtime = require('./runtime.js');

// Queries soon occupy all of Node's default 4 threads, and reads of files would have to wait.
const threadPoolSize = '32';

// A clone has src/, which needs no build, and possibly a stale dist/. A package has only dist/.
function entry() {
  const root = path.join(__dirname, '..');
  const source = path.join(root, 'src', 'main.ts');
  return fs.existsSync(source) ? source : path.join(root, 'dist', 'main.js');
}

runtime.run(
  [entry()].concat(process.argv.slice(2)),
  Object.assign({ UV_THREADPOOL_SIZE: threadPoolSize }, process.env),
);
