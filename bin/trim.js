/* biome-ignore-all lint/style/useNodejsImportProtocol: as runtime.js */
// After an installation: removes the C headers that the package of Node.js brings (67 MB), which only compilers need. Nothing depends on
// it: where installation scripts are off, or a file cannot be removed, the installation is larger.
'use strict';

const fs = require('fs');
const path = require('path');
const { nodePackage } = require('./runtime.js');

try {
  const manifest = require.resolve(nodePackage + '/package.json');
  fs.rmSync(path.join(path.dirname(manifest), 'include'), { recursive: true, force: true });
} catch (_) {
  // There is none for this platform, or it was left out.
}
