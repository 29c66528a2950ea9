// The system endpoints outside the API (rest-standard B9), other than files: liveness, readiness, metrics and the OpenAPI document.
import type { Document } from './document.ts';
import type { SystemEndpoint } from './server.ts';

const text = 'text/plain; charset=utf-8';

export interface SystemEndpointSources {
  /** Rejects when the server cannot serve requests. */
  readonly ready: () => Promise<unknown>;
  /** A degradation that does not affect readiness; undefined when there is none. */
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
          () => ({ status: 503, contentType: text, body: 'the metadata store does not respond\n' }),
        ),
    },
    // Metrics contain names of warehouses, so reading them requires the privilege to read warehouses.
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
