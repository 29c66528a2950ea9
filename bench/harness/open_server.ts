// The server without authentication and authorization: every caller is root, nothing is looked up or decided. The difference of its
// throughput from that of the real server is their cost. Only benchmarks can start it.
import type { Session } from '../../src/access/authentication/authenticator.ts';
import type { RequestAuthorizer } from '../../src/http/request_pipeline.ts';
import { startServer } from '../../src/main.ts';
import { rootPrincipal } from '../../src/model/principal.ts';
import { readSettings } from '../../src/settings/read_settings.ts';

const session: Session = {
  principal: rootPrincipal,
  credential: 'root token',
  expiresAt: Number.MAX_SAFE_INTEGER,
  token: undefined,
  version: 0,
};

const open: RequestAuthorizer = {
  authenticate: () => session,
  isValid: () => true,
  authorizer: {
    generation: 0,
    authorize: () => ({ reach: 'all', objects: [] }),
    identityOf: async () => [],
    require: async () => {},
    record: () => [],
    requireStillAllowed: async () => {},
  },
};

const server = await startServer(readSettings(process.argv.slice(2), process.env), { wrapAuthorizer: () => open });
process.stdout.write(`  URL    ${server.url}\n`);
process.once('SIGTERM', () => void server.close().then(() => process.exit(0)));
