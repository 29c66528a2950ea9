#!/usr/bin/env node
/* biome-ignore-all lint/style/useNodejsImportProtocol: Node 12 does not know it */
// The command `tabularium`, and `npm start`: runs src/main.ts in a Node that is new enough (runtime.js finds it), with
// the same arguments. Plain JavaScript that Node 12 can read; which commands there are is src/cli/commands.ts.
'use strict';

const fs = require('fs');
const path = require('path');
const runtime = require('./runtime.js');

// Node's own 4 threads are soon all taken by queries, and then a file's read waits for one.
const threadPoolSize = '32';

// A clone has src/, which needs no build; a dist/ beside it may be stale. A package has dist/ only.
function entry() {
  const root = path.join(__dirname, '..');
  const source = path.join(root, 'src', 'main.ts');
  return fs.existsSync(source) ? source : path.join(root, 'dist', 'main.js');
}

runtime.run(
  [entry()].concat(process.argv.slice(2)),
  Object.assign({ UV_THREADPOOL_SIZE: threadPoolSize }, process.env),
);
