/* biome-ignore-all lint/style/useNodejsImportProtocol: as runtime.js */
// After an installation: removes what the package of Node.js brings besides the program and its licence, most of it C headers (67 MB) that
// only compilers need. Nothing depends on it: where installation scripts are off, or a file cannot be removed, the installation is larger.
'use strict';

const fs = require('fs');
const path = require('path');
const { nodePackage } = require('./runtime.js');

try {
  const manifest = require.resolve(nodePackage + '/package.json');
  ['include', 'share', 'CHANGELOG.md'].forEach((name) => {
    fs.rmSync(path.join(path.dirname(manifest), name), { recursive: true, force: true });
  });
} catch (_) {
  // There is none for this platform, or it was left out.
}
