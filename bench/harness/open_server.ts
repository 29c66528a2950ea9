// The server without a gate: every caller is root, nothing is looked up and nothing decided. What it does more in a second than
// the real one is what authentication and authorisation cost. Only benchmarks can start it.
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
    authorize: () => 'all',
    identityOf: async () => [],
    require: async () => {},
    record: () => [],
    requireStillAllowed: async () => {},
  },
};

const server = await startServer(readSettings(process.argv.slice(2), process.env), { wrapAuthorizer: () => open });
process.stdout.write(`  URL    ${server.url}\n`);
process.once('SIGTERM', () => void server.close().then(() => process.exit(0)));
