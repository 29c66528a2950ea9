// What is served beside the API (rest-standard B8), apart from pages and files: is it alive, is it ready, its figures, its
// document.
import type { Operation } from './server.ts';

const text = 'text/plain; charset=utf-8';

export interface OperationSources {
  /** Rejects where the server cannot do its work. */
  readonly ready: () => Promise<unknown>;
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
  /** The OpenAPI document as JSON. */
  readonly document: () => string;
}

export function operationsOf({ ready, metrics, document }: OperationSources): Readonly<Record<string, Operation>> {
  return {
    '/livez': { needs: 'nothing', run: async () => ({ status: 200, contentType: text, body: 'alive\n' }) },
    '/readyz': {
      needs: 'nothing',
      run: () =>
        ready().then(
          () => ({ status: 200, contentType: text, body: 'ready\n' }),
          () => ({ status: 503, contentType: text, body: 'the metadata store does not answer\n' }),
        ),
    },
    // They name warehouses, so that who reads them must be allowed to.
    '/metrics': {
      needs: { privilege: 'read', category: 'warehouses' },
      run: async () => ({ status: 200, contentType: metrics.contentType, body: await metrics.text() }),
    },
    '/openapi.json': {
      needs: 'credentials',
      run: async () => ({ status: 200, contentType: 'application/json', body: document() }),
    },
  };
}
