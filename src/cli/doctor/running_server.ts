// Checks of a server that runs on the data directory, over its REST API: it responds, and the servers of its clusters do.
import { join, resolve } from 'node:path';
import { rootTokenFileName } from '../../access/authentication/root_token.ts';
import { TabulariumError } from '../../client/errors.ts';
import { createClient } from '../../client/index.ts';
import { readOperatorFile } from '../../operator/operator_file.ts';
import type { Settings } from '../../settings/read_settings.ts';
import { type Finding, good, skipped, wrong } from './finding.ts';

const check = 'server';
const embedded = 'embedded';
const callMs = 10_000;

export async function runningFindings({ dataDir, host, port, tlsCertFile }: Settings): Promise<readonly Finding[]> {
  const path = join(resolve(dataDir), rootTokenFileName);
  const token = readOperatorFile({ path, what: 'the token of root', advice: 'restart the server' })?.toString().trim();
  if (port === 0 || token === undefined)
    return [skipped(check, 'give the --port of the server that runs, for its clusters to be checked')];
  const name = /^(0\.0\.0\.0|::)$/.test(host) ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  const url = `${tlsCertFile === '' ? 'http' : 'https'}://${name}:${port}`;
  const client = createClient({ url, token, retryForMs: 0 });
  try {
    const found: Finding[] = [];
    for (const warehouse of await client.warehouses.list({}, { timeoutMs: callMs }).all())
      for (const backend of await client.warehouses(warehouse.name).backends.list({}, { timeoutMs: callMs }).all()) {
        if (backend.location === embedded || backend.state !== 'enabled') continue;
        const about = `backend ${backend.backendId}`;
        found.push(
          backend.alive
            ? good(about, `${backend.location} responds`)
            : wrong(
                about,
                `${backend.location} does not respond: start it, or take it out of service with \`tabularium backends disable ${backend.backendId} --warehouse ${warehouse.name}\``,
              ),
        );
      }
    return [good(check, `responds at ${url}`), ...found];
  } catch (error) {
    if (!(error instanceof TabulariumError)) throw error;
    return [
      wrong(
        check,
        `the server that runs on this data directory does not respond at ${url} (${error.code}): see its log, or give doctor the settings with which it was started, such as --port`,
      ),
    ];
  }
}
