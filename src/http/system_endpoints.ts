// What is served beside the API (rest-standard B9), apart from pages and files: is it alive, is it ready, its figures, its
// document.
import type { Document } from './document.ts';
import type { SystemEndpoint } from './server.ts';

const text = 'text/plain; charset=utf-8';

export interface SystemEndpointSources {
  /** Rejects where the server cannot do its work. */
  readonly ready: () => Promise<unknown>;
  /** What works less well than it should; undefined: nothing. The server takes requests all the same. */
  readonly warning: () => string | undefined;
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
  readonly document: Document;
  readonly documentNeedsCredentials: boolean;
}

export function systemEndpoints(sources: SystemEndpointSources): Readonly<Record<string, SystemEndpoint>> {
  const { ready, metrics, document, documentNeedsCredentials } = sources;
  return {
    '/livez': { needs: 'nothing', run: async () => ({ status: 200, contentType: text, body: 'alive\n' }) },
    '/readyz': {
      needs: 'nothing',
      run: () =>
        ready().then(
          () => ({
            status: 200,
            contentType: text,
            body: `${['ready', sources.warning()].filter(Boolean).join('; ')}\n`,
          }),
          () => ({ status: 503, contentType: text, body: 'the metadata store does not answer\n' }),
        ),
    },
    // They name warehouses, so that who reads them must be allowed to.
    '/metrics': {
      needs: { privilege: 'read', category: 'warehouses' },
      run: async () => ({ status: 200, contentType: metrics.contentType, body: await metrics.text() }),
    },
    '/openapi.json': {
      needs: documentNeedsCredentials ? 'credentials' : 'anyone',
      run: async (headers) => ({ contentType: 'application/json', ...(await document.serve(headers)) }),
    },
  };
}
