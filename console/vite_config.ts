// How Vite builds the console, and serves it in development: `npm run dev:console` passes /api and /files on to a running server.

import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const server = process.env.TABULARIUM_URL ?? 'http://127.0.0.1:8030';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: '/console/',
  plugins: [react()],
  // The types of the table of operations need no code of the declarations.
  worker: { format: 'es' },
  build: {
    outDir: fileURLToPath(new URL('../dist/console/', import.meta.url)),
    emptyOutDir: true,
    rolldownOptions: {
      // The second is the template of the documentation's pages (scripts/documentation/).
      input: ['index.html', 'docs/page.html'].map((page) => fileURLToPath(new URL(page, import.meta.url))),
    },
    target: 'baseline-widely-available',
    // Everything is a file of its own: the content security policy allows no `data:` scripts or styles.
    assetsInlineLimit: 0,
    license: { fileName: 'licenses.md' },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  server: {
    proxy: Object.fromEntries(
      ['/api', '/files', '/readyz', '/console/tokens', '/console/sign_in_methods', '/console/docs/'].map((path) => [
        path,
        server,
      ]),
    ),
  },
});
