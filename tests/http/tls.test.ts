// TLS from the client's view: the handshake and its failures, unusable files, files that change while the server runs, and no
// unencrypted listening unless configured.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { TlsFiles } from '../../src/http/connection/tls.ts';
import { isLoopback } from '../../src/http/connection/transport.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { SettingsError } from '../../src/settings/read_settings.ts';
import { eventually } from '../deadline.ts';
import { start } from '../server.ts';
import { ask, certificateNameAt, directoryOf, makePair, type PairFiles } from './certificates.ts';
import { Wire } from './wire.ts';

const silent = { logLevel: 'silent' } as const;

/** The value of a counter with its labels, in the format of Prometheus. */
async function counted(url: string, certFile: string, token: string, line: string): Promise<number> {
  const { text } = await ask(`${url}/metrics`, certFile, { headers: { authorization: `Bearer ${token}` } });
  return Number(
    text
      .split('\n')
      .find((candidate) => candidate.startsWith(`${line} `))
      ?.slice(line.length) ?? 0,
  );
}

async function refused(overrides: Parameters<typeof start>[0], ...parts: RegExp[]): Promise<void> {
  await assert.rejects(start(overrides), (error) => {
    assert.ok(error instanceof SettingsError, String(error));
    for (const part of parts) assert.match(error.message, part);
    return true;
  });
}

test('with a certificate, the server uses HTTPS and reports it', async (t) => {
  const files = makePair(directoryOf(t), 'first');
  const server = await start(files);
  t.after(() => server.close());
  assert.match(server.url, /^https:\/\/127\.0\.0\.1:\d+$/);
  const headers = { authorization: `Bearer ${server.token}` };
  const reply = await ask(`${server.url}/api/v2/catalogs`, files.tlsCertFile, { headers });
  assert.deepEqual([reply.status, reply.shown, JSON.parse(reply.text).code], [200, 'first', '0']);
  assert.equal((await ask(`${server.url}/api/v2/catalogs`, files.tlsCertFile)).status, 401);
  const end = await counted(server.url, files.tlsCertFile, server.token, certificateEnd);
  assert.ok(Math.abs(end - Date.now() / 1000 - 30 * 86_400) < 3600, String(end));
});

test('a large upload arrives as it was sent', async (t) => {
  const files = makePair(directoryOf(t), 'first');
  const server = await start(files);
  t.after(() => server.close());
  const headers = { authorization: `Bearer ${server.token}`, 'content-type': 'application/json' };
  const created = await ask(`${server.url}/api/v2/uploads`, files.tlsCertFile, { method: 'POST', headers }, '{}');
  const { link } = (JSON.parse(created.text) as { result: { link: string } }).result;
  const bytes = randomBytes(9_000_000);
  const sent = await ask(`${server.url}${link}`, files.tlsCertFile, { method: 'PUT' }, bytes);
  const { sha256 } = (JSON.parse(sent.text) as { result: { sha256: string } }).result;
  assert.equal(sha256, createHash('sha256').update(bytes).digest('hex'));
});

const certificateEnd = 'tabularium_tls_certificate_end_seconds{listener="https"}';

function versionSpoken(port: number, maxVersion: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3'): Promise<string> {
  return new Promise((resolve) => {
    // Without SECLEVEL=0, the client would not offer the old versions at all.
    const old = { minVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, maxVersion, ...old }, () => {
      resolve(String(socket.getProtocol()));
      socket.destroy();
    });
    socket.once('error', () => resolve('none'));
  });
}

test('versions of TLS older than tlsMinVersion are not accepted, also after a reload', async (t) => {
  const directory = directoryOf(t);
  const server = await start({ ...makePair(directory, 'both'), ...silent });
  t.after(() => server.close());
  assert.equal(await versionSpoken(server.port, 'TLSv1.1'), 'none');
  assert.equal(await versionSpoken(server.port, 'TLSv1.2'), 'TLSv1.2');
  assert.equal(await versionSpoken(server.port, 'TLSv1.3'), 'TLSv1.3');
  const files = makePair(directory, 'new_only');
  const strict = await start({ ...files, ...silent, tlsMinVersion: 'TLSv1.3' });
  t.after(() => strict.close());
  assert.equal(await versionSpoken(strict.port, 'TLSv1.2'), 'none');
  await replace(files, makePair(directory, 'newer'));
  await eventually('the new certificate', async () => (await certificateNameAt(strict.port)) === 'newer');
  assert.equal(await versionSpoken(strict.port, 'TLSv1.2'), 'none');
  assert.equal(await versionSpoken(strict.port, 'TLSv1.3'), 'TLSv1.3');
});

test('unusable files end the start before anything is created', async (t) => {
  const directory = directoryOf(t);
  const dataDir = join(directory, 'data');
  const [first, second] = [makePair(directory, 'one'), makePair(directory, 'other')];
  await refused(
    { dataDir, tlsCertFile: first.tlsCertFile },
    /tlsCertFile and tlsKeyFile must be set together/,
    /tlsKeyFile is missing/,
  );
  await refused({ dataDir, tlsKeyFile: first.tlsKeyFile }, /tlsCertFile is missing/);
  await refused(
    { dataDir, ...first, tlsKeyFile: second.tlsKeyFile },
    /the key in .*other\.key does not match .*one\.crt/,
  );
  await refused(
    { dataDir, ...first, tlsCertFile: join(directory, 'nowhere') },
    /cannot be read from .*nowhere \(it does not exist\); check tlsCertFile/,
  );
  await refused({ dataDir, ...first, tlsCertFile: first.tlsKeyFile }, /one\.key does not contain a PEM certificate/);
  await refused(
    { dataDir, ...first, tlsKeyFile: first.tlsCertFile },
    /one\.crt does not contain an unencrypted PEM private key/,
  );
  assert.ok(!existsSync(dataDir), 'the data directory was made');
});

test('on other than loopback addresses the server does not listen without TLS, unless configured to', async (t) => {
  const directory = directoryOf(t);
  const dataDir = join(directory, 'data');
  for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.org', '::ffff:192.0.2.1', '127.evil.example'])
    await refused({ dataDir, host }, /--tls-cert-file/, /--tls-key-file/, /--insecure/);
  assert.ok(!existsSync(dataDir), 'the data directory was made');
  for (const more of [{ insecure: true }, makePair(directory, 'open')]) {
    const server = await start({ host: '0.0.0.0', ...more });
    assert.match(server.url, /^https?:\/\/0\.0\.0\.0:/);
    await server.close();
  }
  for (const host of ['127.0.0.1', '127.9.9.9', '::1', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1', 'localhost', 'LocalHost'])
    assert.ok(isLoopback(host), host);
  await (await start({ host: 'localhost' })).close();
});

test('the program prints the reason on one line, and exits with 2', (t) => {
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  const flags = ['--host=0.0.0.0', '--port=0', `--data-dir=${join(directoryOf(t), 'data')}`];
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...flags], { encoding: 'utf8' });
  assert.deepEqual([status, stdout], [2, '']);
  assert.match(stderr, /^without TLS, the server does not listen on 0\.0\.0\.0.*terminates TLS\n$/);
});

/** As most programs do it: both written beside, then renamed one after the other. */
async function replace(files: PairFiles, by: PairFiles): Promise<void> {
  for (const name of ['tlsCertFile', 'tlsKeyFile'] as const) {
    await copyFile(by[name], `${files[name]}.new`);
    await rename(`${files[name]}.new`, files[name]);
  }
}

test('a new pair is used for new connections; open ones continue; an invalid pair changes nothing', async (t) => {
  const directory = directoryOf(t);
  const live = makePair(directory, 'old');
  const oldCert = join(directory, 'old_kept.crt');
  await copyFile(live.tlsCertFile, oldCert);
  const [next, last] = [makePair(directory, 'next'), makePair(directory, 'last')];
  const server = await start({ ...live, ...silent });
  t.after(() => server.close());
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const onOpenOne = () => ask(`${server.url}/livez`, oldCert, { agent });
  assert.equal((await onOpenOne()).shown, 'old');

  await replace(live, next);
  await eventually('the new certificate', async () => (await certificateNameAt(server.port)) === 'next');
  assert.deepEqual(((reply) => [reply.status, reply.shown])(await onOpenOne()), [200, 'old']);

  const reloads = (outcome: string) =>
    counted(server.url, next.tlsCertFile, server.token, `tabularium_tls_reloads_total{outcome="${outcome}"}`);
  const bad: [string, () => Promise<void>][] = [
    ['the key of another', () => copyFile(last.tlsKeyFile, live.tlsKeyFile)],
    ['no PEM', () => writeFile(live.tlsKeyFile, 'nonsense')],
    ['nothing', () => rm(live.tlsKeyFile)],
  ];
  for (const [what, spoil] of bad) {
    const before = await reloads('refused');
    await spoil();
    await eventually(what, async () => (await reloads('refused')) > before);
    assert.equal(await certificateNameAt(server.port), 'next', what);
  }
  await replace(live, last);
  await eventually('the last certificate', async () => (await certificateNameAt(server.port)) === 'last');
  assert.equal((await onOpenOne()).status, 200);
});

test('a symbolic link that points to another directory is a change', async (t) => {
  const directory = directoryOf(t);
  for (const name of ['one', 'two']) {
    await mkdir(join(directory, name));
    const files = makePair(directory, name);
    await rename(files.tlsCertFile, join(directory, name, 'tls.crt'));
    await rename(files.tlsKeyFile, join(directory, name, 'tls.key'));
  }
  // As Kubernetes mounts a secret: files are links through another link.
  await symlink('one', join(directory, '..data'));
  const files = { tlsCertFile: join(directory, 'tls.crt'), tlsKeyFile: join(directory, 'tls.key') };
  await symlink('..data/tls.crt', files.tlsCertFile);
  await symlink('..data/tls.key', files.tlsKeyFile);
  const server = await start({ ...files, ...silent });
  t.after(() => server.close());
  assert.equal(await certificateNameAt(server.port), 'one');
  await symlink('two', join(directory, '..data_new'));
  await rename(join(directory, '..data_new'), join(directory, '..data'));
  await eventually('the new certificate', async () => (await certificateNameAt(server.port)) === 'two');
});

test('changes without file events are found by polling; each fault is reported once, and so is an approaching expiry', async (t) => {
  const directory = directoryOf(t);
  const [hidden, links] = [join(directory, 'hidden'), join(directory, 'links')];
  for (const path of [hidden, links]) await mkdir(path);
  const real = makePair(hidden, 'first', 3);
  const files = { certFile: join(links, 'tls.crt'), keyFile: join(links, 'tls.key') };
  await symlink(real.tlsCertFile, files.certFile);
  await symlink(real.tlsKeyFile, files.keyFile);
  await chmod(real.tlsKeyFile, 0o644);
  const tls = await TlsFiles.open({ ...files, minVersion: 'TLSv1.2', pollMs: 20 });
  const seen: Observation[] = [];
  const kinds = () => seen.map(({ kind }) => kind).sort();
  let used = 0;
  tls.watch(
    () => used++,
    (observation) => seen.push(observation),
  );
  t.after(() => tls.stop());
  await eventually('told at the start', () => seen.length === 3);
  assert.deepEqual(kinds(), ['tlsExpiring', 'tlsKeyExposed', 'tlsLoaded']);

  seen.length = 0;
  await writeFile(join(directory, 'nonsense'), 'nonsense');
  await rename(join(directory, 'nonsense'), real.tlsKeyFile); // at once, so that no intermediate state is seen
  await eventually('the fault', () => seen.length > 0);
  await sleep(200);
  assert.deepEqual(kinds(), ['tlsReloadFailed']);
  assert.equal(used, 0);

  seen.length = 0;
  const next = makePair(directory, 'second');
  // Two writes in a directory without a watch: between them the pair may be seen as invalid.
  await copyFile(next.tlsKeyFile, real.tlsKeyFile);
  await copyFile(next.tlsCertFile, real.tlsCertFile);
  await eventually('the new pair', () => kinds().includes('tlsReloaded'));
  await sleep(100);
  assert.equal(used, 1);
  assert.equal(seen.filter(({ kind }) => kind === 'tlsReloaded' || kind === 'tlsExpiring').length, 1);
  assert.doesNotMatch(JSON.stringify(seen), /PRIVATE|nonsense/);
});

test('a handshake that does not complete is aborted, and so is plain HTTP; both are counted', async (t) => {
  const files = makePair(directoryOf(t), 'strict');
  const server = await start({ ...files, tlsHandshakeTimeoutMs: 1500, headersTimeoutMs: 60_000 });
  t.after(() => server.close());
  const broken = (code: string) =>
    counted(server.url, files.tlsCertFile, server.token, `tabularium_broken_requests_total{code="${code}"}`);
  const nothing = new Wire(server.port);
  const half = new Wire(server.port);
  half.write(Buffer.from('16030100c8010000c4', 'hex')); // only the beginning of a ClientHello
  const plain = new Wire(server.port);
  plain.write('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n');
  for (const wire of [nothing, half, plain]) {
    const received = await wire.rest();
    assert.doesNotMatch(received, /HTTP|alive/);
  }
  await eventually('all are counted', async () => (await broken('TLS_HANDSHAKE_FAILED')) === 3);
  assert.equal(await broken('MALFORMED_HTTP'), 0, 'they were no requests');
});

test('a handshake in progress does not delay the stop of the server', async (t) => {
  const files = makePair(directoryOf(t), 'slow');
  const server = await start({ ...files, tlsHandshakeTimeoutMs: 60_000 });
  const wire = new Wire(server.port);
  await new Promise((resolve) => wire.socket.once('connect', resolve));
  await ask(`${server.url}/livez`, files.tlsCertFile); // accepted after it, so that the server has accepted it too
  const closed = server.close();
  assert.equal(await wire.rest(), ''); // fails after 15 s
  await closed;
});
