// A registered server as a member of the cluster: its connection, its condition as of the last check, and the calls that run on it.

import { withTimeout } from '../../../model/concurrency/bounded_waits.ts';
import type { ServerIdentity } from '../../../model/records.ts';
import type { HostAllowlist } from '../../../outbound/host_allowlist.ts';
import type { Failure } from '../../../standard/failure.ts';
import type { Availability, Credentials, DescribedBackend } from '../../cluster/registered_servers.ts';
import { wasLost } from '../../engine_lost.ts';
import { serverFailure } from '../connection/clickhouse_error.ts';
import { HttpServer } from '../connection/http_server.ts';
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';
import { commentOf } from '../connection/server_settings.ts';
import { runningWhere, type ServerFacts } from './server_facts.ts';

export interface MemberOptions {
  readonly warehouseId: string;
  readonly credentials: () => Promise<Credentials>;
  readonly hosts: HostAllowlist | undefined;
  /** Called when a call finds that the server is lost. */
  readonly lost: (member: Member) => void;
  /** See `MissingTables.failureOf`. */
  readonly missingFailure: (error: unknown, sql: string) => Promise<Failure | undefined>;
}

/** Why a server is not complete. */
export interface Lack {
  readonly message: string;
  /** It may be what others have of changes and writes that were begun. */
  readonly isBegunWork: boolean;
}

const lostMessage = 'it does not respond';
/** A server that has answered no check for as long is asked for nothing else. */
const abandonMs = 10_000;

export class Member {
  readonly name: string;
  readonly location: string;
  readonly server: HttpServer;
  /** Of `system.processes` there: the statements of the warehouse. */
  readonly runningWhere: string;
  /** Of the claim with which its tables are dropped: the same on all servers of this product, which share the warehouse. */
  readonly dropKey: string;
  /** What callers of the cluster get: its calls are counted, and a lost connection is noticed. */
  readonly counted: ClickHouseServer;
  isDisabled: boolean;
  /** It is disabled for good: it has no tables. */
  isDecommissioned: boolean;
  /** While it is disabled: its tables may have other names than those of the other servers. */
  missesNames = true;
  identity: ServerIdentity | undefined;
  /** `unavailable` until the first check. */
  availability: Availability = 'unavailable';
  errorMessage: string | null = null;
  /** While it is catching up: whether it lacks only what others have of work that was begun. That cannot be completed without it. */
  takesBegunWork = false;
  /** How often it was lost. */
  losses = 0;
  /** The publication that this replica is behind: no server reads it. Undefined if a server may read it. */
  exclusion: Promise<void> | undefined;
  /** Its tables that were found to have the rows of the others since it was lost: from then on it gets what they get. */
  readonly equalTables = new Set<string>();
  facts: ServerFacts | undefined;
  lastHeartbeatAt: string | null = null;
  /** When it last answered a check; of `performance.now()`. */
  lastAnswerAt = performance.now();
  /** When the server started, by its clock, in seconds since 1970. */
  startedAtSeconds: number | undefined;
  /** The number of calls of this process that run on it. */
  running = 0;

  constructor(backend: DescribedBackend, { warehouseId, credentials, hosts, lost, missingFailure }: MemberOptions) {
    this.name = backend.name;
    this.location = backend.location;
    this.isDisabled = backend.disabled;
    this.isDecommissioned = backend.decommissioned ?? false;
    this.identity = backend.server;
    const comment = commentOf(warehouseId);
    this.runningWhere = runningWhere(comment);
    this.dropKey = `drops of ${warehouseId}`;
    this.server = new HttpServer({ name: backend.name, url: backend.location, comment, credentials, hosts });
    const onLoss = () => {
      this.lose(lostMessage);
      lost(this);
    };
    this.counted = countedServer(this, onLoss, missingFailure);
  }

  /** It takes statements. */
  get isAvailable(): boolean {
    return !this.isDisabled && this.availability === 'available';
  }

  /** The shard, from 1; 0 if it is unknown, because the server has never answered. */
  get shard(): number {
    return this.identity?.shard ?? 0;
  }

  get load(): number {
    return this.running;
  }

  /** It must be checked, and catch up, before it is available again. */
  lose(message: string): void {
    this.losses++;
    this.availability = 'unavailable';
    this.takesBegunWork = false;
    this.missesNames = true;
    this.equalTables.clear();
    this.errorMessage = message;
  }

  /** Its last answers are recent enough to ask it for something. */
  get answers(): boolean {
    return performance.now() - this.lastAnswerAt <= abandonMs;
  }

  async close(): Promise<void> {
    this.server.disconnect();
    await this.server.close();
  }
}

function countedServer(
  member: Member,
  lost: () => void,
  missingFailure: MemberOptions['missingFailure'],
): ClickHouseServer {
  const { server } = member;
  const watched = async <T>({ sql }: ServerCall, work: Promise<T>): Promise<T> => {
    member.running++;
    try {
      return await work;
    } catch (error) {
      const missing = await missingFailure(error, sql);
      if (missing) throw missing;
      if (wasLost(serverFailure(error)) && !(await isStillThere(server))) lost();
      throw error;
    } finally {
      member.running--;
    }
  };
  return {
    name: member.name,
    get version() {
      return server.version;
    },
    text: (call) => watched(call, server.text(call)),
    rows: <Row extends object>(call: ServerCall) => watched(call, server.rows<Row>(call)),
    async stream(call) {
      const body = await watched(call, server.stream(call));
      member.running++;
      body.once('close', () => member.running--);
      body.once('error', (error) => {
        if (wasLost(serverFailure(error))) void isStillThere(server).then((isThere) => isThere || lost());
      });
      return body;
    },
  };
}

/** A server may report that it lost another one: its error is then as that of a lost connection. */
async function isStillThere(server: HttpServer): Promise<boolean> {
  const answer = server.versionText(answerMs).then(
    () => true,
    () => false,
  );
  return (await withTimeout(answer, answerMs)) ?? false;
}

const answerMs = 1000;
