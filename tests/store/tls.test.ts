// TLS to PostgreSQL with `sslmode=verify-full`: the certificate of the server must be signed by the authority in `sslrootcert`, for the host in
// the URL.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { openPostgresqlStore } from '../../src/store/postgresql/postgresql_store.ts';
import { parsePostgresqlUrl } from '../../src/store/postgresql/postgresql_url.ts';
import { StoreUnusable } from '../../src/store/store_errors.ts';
import { eventually } from '../deadline.ts';
import { freePorts } from '../engines/clickhouse/ring/free_ports.ts';
import { makePair, type PairFiles, signPair } from '../http/connection/certificates.ts';
import { clusterSetup, missingPostgresql } from '../postgresql.ts';

const endings: (() => unknown)[] = [];
after(async () => {
  for (const end of endings.reverse()) await end();
});

/** A PostgreSQL that accepts encrypted connections only. @returns its port. */
async function startWith(pair: PairFiles): Promise<number> {
  const { programs, base, ids, asUser } = clusterSetup();
  const directory = mkdtempSync(join(base, 'tabularium-pg-tls-'));
  endings.push(() => rmSync(directory, { recursive: true, force: true }));
  chownSync(directory, ids.uid, ids.gid);
  const data = join(directory, 'data');
  const own = { cwd: directory, env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', TMPDIR: directory } };
  const initdb = [join(programs, 'initdb'), `--pgdata=${data}`, '--username=u', '--encoding=UTF8', '--no-sync'];
  execFileSync('setpriv', [...asUser, ...initdb], { ...own, stdio: 'pipe' });
  writeFileSync(join(data, 'pg_hba.conf'), 'hostssl all all 127.0.0.1/32 trust\nhostssl all all ::1/128 trust\n');
  for (const [from, to] of [
    [pair.tlsCertFile, 'server.crt'],
    [pair.tlsKeyFile, 'server.key'],
  ] as const) {
    copyFileSync(from, join(data, to));
    chmodSync(join(data, to), 0o600);
    chownSync(join(data, to), ids.uid, ids.gid);
  }
  const [port] = (await freePorts(1)) as [number];
  const settings = { ssl: 'on', listen_addresses: 'localhost', port, unix_socket_directories: '', fsync: 'off' };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const words = [...asUser, '--pdeathsig=QUIT', join(programs, 'postgres'), '-D', data, ...flags];
  const server = spawn('setpriv', words, { ...own, stdio: 'ignore' });
  const exited = once(server, 'exit');
  endings.push(async () => {
    server.kill('SIGQUIT');
    await exited;
  });
  await eventually('PostgreSQL accepts encrypted connections', async () => {
    const ssl = { rejectUnauthorized: false };
    const client = new Client({ host: '127.0.0.1', port, user: 'u', database: 'postgres', ssl });
    client.on('error', () => {});
    try {
      await client.connect();
      return true;
    } catch {
      return false;
    } finally {
      await client.end().catch(() => {});
    }
  });
  return port;
}

describe('TLS to PostgreSQL', { skip: missingPostgresql }, () => {
  let right: string;
  let wrong: string;
  let forName: number;
  let forAddress: number;
  before(async () => {
    const directory = mkdtempSync(join(clusterSetup().base, 'tabularium-pg-certificates-'));
    endings.push(() => rmSync(directory, { recursive: true, force: true }));
    const authority = makePair(directory, 'authority');
    right = authority.tlsCertFile;
    wrong = makePair(directory, 'other').tlsCertFile;
    forName = await startWith(signPair(directory, 'name', authority, 'DNS:localhost'));
    forAddress = await startWith(signPair(directory, 'address', authority, 'IP:127.0.0.1'));
  });

  const open = async (host: string, port: number, mode: string): Promise<void> => {
    const store = await openPostgresqlStore({
      location: parsePostgresqlUrl(`postgres://u@${host}:${port}/postgres?${mode}`),
    });
    await store.close();
  };
  const refuses = (opened: Promise<void>, message: RegExp) =>
    assert.rejects(opened, (error: unknown) => {
      assert(error instanceof StoreUnusable, `${error}`);
      assert.match(error.message, message);
      return true;
    });
  const verified = (authority: string) => `sslmode=verify-full&sslrootcert=${encodeURIComponent(authority)}`;

  test('is accepted from the right authority, for the host of the URL', async () => {
    await open('localhost', forName, verified(right));
    await open('127.0.0.1', forAddress, verified(right));
  });

  test('is refused from another authority, with the reason', async () => {
    await refuses(
      open('localhost', forName, verified(wrong)),
      /the database postgres at localhost:\d+ cannot be used: .*certificate/,
    );
    await refuses(open('localhost', forName, 'sslmode=verify-full'), /cannot be used: .*certificate/);
  });

  test('is refused for another host, with the reason', async () => {
    await refuses(
      open('127.0.0.1', forName, verified(right)),
      /127\.0\.0\.1.*does not match certificate|127\.0\.0\.1 is not in the cert/,
    );
    await refuses(open('localhost', forAddress, verified(right)), /cannot be used: .*localhost/);
  });

  test('is not verified with sslmode=require, and is needed', async () => {
    await open('127.0.0.1', forName, 'sslmode=require');
    await refuses(open('127.0.0.1', forName, 'sslmode=disable'), /cannot be used: .*no encryption/);
  });
});
