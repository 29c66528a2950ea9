/* biome-ignore-all lint/style/useNodejsImportProtocol: as runtime.js */
// After an installation: removes what the package of Node.js brings besides the program and its licence, most of it C headers (67 MB) that
// only compilers need, and the tests, sources and source maps of other packages, which nothing loads (5 MB). Nothing depends on it: where
// installation scripts are off, or a file cannot be removed, the installation is larger.
'use strict';

const fs = require('fs');
const path = require('path');
const { nodePackage } = require('./runtime.js');

const unused = {
  [nodePackage]: ['include', 'share', 'CHANGELOG.md'],
  'apache-arrow': ['src', 'Arrow.es2015.min.js.map', 'Arrow.esnext.min.js.map'],
  bintrees: ['test'],
  'pg-cloudflare': ['dist', 'esm', 'src'],
  'pg-protocol': ['src'],
  'parquet-wasm': ['bundler', 'esm'],
  pino: ['test', 'docs', 'benchmarks'],
};

/** Declarations, which the compiler needs in a checkout, and nothing in an installation: 10 MB. */
if (!fs.existsSync(path.join(__dirname, '../src')))
  ['@aws-sdk/client-s3', '@aws-sdk/core', '@aws-sdk/nested-clients', '@smithy/core'].forEach((name) => {
    unused[name] = ['dist-types'];
  });

/** The directory of an installed package: next to this one, or above it. */
function directoryOf(name) {
  const found = (require.resolve.paths(name) || []).map((parent) => path.join(parent, name)).filter(fs.existsSync);
  return found[0];
}

Object.keys(unused).forEach((name) => {
  try {
    const directory = directoryOf(name);
    unused[name].forEach((file) => {
      fs.rmSync(path.join(directory, file), { recursive: true, force: true });
    });
  } catch (_) {
    // There is none for this platform, or it was left out.
  }
});
