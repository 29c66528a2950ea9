// Checks a server that a caller wants to register. Nothing of what it answers is shown, except its version.

import { unlessAborted } from '../../../model/concurrency/bounded_waits.ts';
import type { ServerIdentity } from '../../../model/records.ts';
import type { HostAllowlist } from '../../../outbound/host_allowlist.ts';
import { urlOf } from '../../../outbound/http_client.ts';
import type { Code } from '../../../standard/codes.ts';
import { Failure, invalidParameter } from '../../../standard/failure.ts';
import type { Candidate } from '../../cluster/registered_servers.ts';
import { certificateFaultOf } from '../connection/certificate_fault.ts';
import { ClickHouseError, missingPrivilege } from '../connection/clickhouse_error.ts';
import { HttpServer, isSupported, versionMinText } from '../connection/http_server.ts';
import { readIdentity, unsuitable } from './server_identity.ts';

const callMs = 4000;
/** Errors of the account. */
const refusedAccount: readonly number[] = [192, 193, 194, 516];

const keeperException = 999;

/** See `ClusterEngine.probe`. `hosts` undefined: any host. */
export async function probeServer(
  { location, cluster, credentials, registered }: Candidate,
  { signal, hosts }: { readonly signal: AbortSignal; readonly hosts: HostAllowlist | undefined },
): Promise<ServerIdentity> {
  const url = locationOf(location);
  hosts?.check(url);
  const server = new HttpServer({
    name: 'candidate',
    url: url.origin,
    credentials: async () => credentials,
    connectionsMax: 4,
    hosts,
  });
  try {
    const identity = await unlessAborted(identify(server, cluster), signal, noAnswer);
    requireFitting(identity, registered);
    return identity;
  } catch (error) {
    throw toRefusal(error);
  } finally {
    server.disconnect();
    await server.close();
  }
}

/** See `ClusterEngine.responds`. Any answer counts, also a refusal. */
export async function serverResponds(location: string, hosts: HostAllowlist | undefined): Promise<boolean> {
  const server = new HttpServer({
    name: 'candidate',
    url: locationOf(location).origin,
    credentials: async () => ({ user: '', password: '' }),
    connectionsMax: 1,
    hosts,
  });
  try {
    await server.versionText(callMs);
    return true;
  } catch (error) {
    return !isSilent(error);
  } finally {
    server.disconnect();
    await server.close();
  }
}

function isSilent(error: unknown): boolean {
  if (!(error instanceof Failure) || !unanswered.includes(error.code)) return false;
  return hostRefusalOf(error) === undefined && certificateFaultOf(error) === undefined;
}

function locationOf(location: string): URL {
  const url = urlOf(location);
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '')
    throw invalidParameter('/location', 'url', 'must be the URL of a server, without path and parameters');
  return url;
}

async function identify(server: HttpServer, cluster: string): Promise<ServerIdentity> {
  const version = await server.versionText(callMs);
  if (!/^\d+\.\d+/.test(version)) throw notAServer();
  if (!isSupported(version)) {
    const shown = /^[\d.]{1,40}/.exec(version)?.[0];
    throw unsuitable('version', `the server has the version ${shown}; at least ${versionMinText} is required`);
  }
  return readIdentity(server, cluster, callMs);
}

function requireFitting(identity: ServerIdentity, registered: readonly ServerIdentity[]): void {
  const { id, shard, replica, shardCount, replicaCount, replicates } = identity;
  if (registered.some((other) => other.id === id)) throw unsuitable('registered', 'the server is registered already');
  for (const other of registered) {
    if (other.shard === shard && other.replica === replica)
      throw unsuitable('registered', 'a backend with the same place in the cluster is registered already');
    if (other.shardCount !== shardCount || other.replicaCount !== replicaCount)
      throw unsuitable('cluster', 'the server defines the cluster otherwise than the registered backends');
    if (other.replicates !== replicates) {
      const difference = replicates ? 'can replicate tables, and they cannot' : 'cannot replicate tables, and they can';
      throw unsuitable('replication', `unlike the registered backends, the server ${difference}`);
    }
  }
}

function hostRefusalOf(error: Failure): Failure | undefined {
  const cause = error.cause instanceof Error ? error.cause.cause : undefined;
  return cause instanceof Failure && cause.code === 'HOST_NOT_ALLOWED' ? cause : undefined;
}

/** A server that is lost, too slow, or cannot reach Keeper. */
const unanswered: readonly Code[] = ['WAREHOUSE_FAILED', 'STATEMENT_CANCELLED', 'REPLICAS_UNAVAILABLE'];

const unavailable = (message: string) => new Failure('REMOTE_UNAVAILABLE', message, {}, { outcome: 'notApplied' });
const noAnswer = () => unavailable('the server does not respond');
const notAServer = () => unsuitable('protocol', 'the URL is not that of the HTTP interface of a server of this engine');

/** The addresses and messages of servers are only for the log. */
function toRefusal(error: unknown): unknown {
  if (error instanceof ClickHouseError) {
    if (error.code === keeperException) return noAnswer();
    const lack = missingPrivilege(error);
    if (lack !== undefined) return unsuitable('credentials', `the user of the warehouse ${lack} on the server`);
    if (refusedAccount.includes(error.code))
      return unsuitable('credentials', 'the server refuses the user and the password of the warehouse');
    return notAServer();
  }
  if (!(error instanceof Failure)) return error;
  const refusal = hostRefusalOf(error);
  if (refusal) return refusal;
  if (!unanswered.includes(error.code)) return error;
  const fault = certificateFaultOf(error);
  return fault === undefined ? noAnswer() : unavailable(`the server cannot be used: ${fault}`);
}
