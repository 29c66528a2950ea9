// TLS from the client's view: the handshake and its failures, unusable files, files that change while the server runs, and no
// unencrypted listening unless configured.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { TlsFiles } from '../../../src/http/connection/tls.ts';
import { isLoopback } from '../../../src/http/connection/transport.ts';
import type { Observation } from '../../../src/observe/observations.ts';
import { SettingsError } from '../../../src/settings/read_settings.ts';
import { eventually, spentMs } from '../../deadline.ts';
import { start } from '../../server.ts';
import { certificateNameAt, directoryOf, httpsRequest, makePair, type PairFiles } from './certificates.ts';
import { Wire } from './wire.ts';

const silent = { logLevel: 'silent' } as const;

/** The value of a counter with its labels, in the format of Prometheus. */
async function readCounter(url: string, certFile: string, token: string, line: string): Promise<number> {
  const { text } = await httpsRequest(`${url}/metrics`, certFile, { headers: { authorization: `Bearer ${token}` } });
  return Number(
    text
      .split('\n')
      .find((candidate) => candidate.startsWith(`${line} `))
      ?.slice(line.length) ?? 0,
  );
}

async function requireStartRefused(overrides: Parameters<typeof start>[0], ...parts: RegExp[]): Promise<void> {
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
  const reply = await httpsRequest(`${server.url}/api/v2/catalogs`, files.tlsCertFile, { headers });
  assert.deepEqual([reply.status, reply.certificateName, JSON.parse(reply.text).code], [200, 'first', '0']);
  assert.equal((await httpsRequest(`${server.url}/api/v2/catalogs`, files.tlsCertFile)).status, 401);
  const end = await readCounter(server.url, files.tlsCertFile, server.token, certificateEnd);
  assert.ok(Math.abs(end - Date.now() / 1000 - 30 * 86_400) < 3600, String(end));
});

test('a large upload arrives as it was sent', async (t) => {
  const files = makePair(directoryOf(t), 'first');
  const server = await start(files);
  t.after(() => server.close());
  const headers = { authorization: `Bearer ${server.token}`, 'content-type': 'application/json' };
  const created = await httpsRequest(
    `${server.url}/api/v2/uploads`,
    files.tlsCertFile,
    { method: 'POST', headers },
    '{}',
  );
  const { link } = (JSON.parse(created.text) as { result: { link: string } }).result;
  const bytes = randomBytes(9_000_000);
  const sent = await httpsRequest(`${server.url}${link}`, files.tlsCertFile, { method: 'PUT' }, bytes);
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
  const strictServer = await start({ ...files, ...silent, tlsMinVersion: 'TLSv1.3' });
  t.after(() => strictServer.close());
  assert.equal(await versionSpoken(strictServer.port, 'TLSv1.2'), 'none');
  await replace(files, makePair(directory, 'newer'));
  await eventually('the new certificate', async () => (await certificateNameAt(strictServer.port)) === 'newer');
  assert.equal(await versionSpoken(strictServer.port, 'TLSv1.2'), 'none');
  assert.equal(await versionSpoken(strictServer.port, 'TLSv1.3'), 'TLSv1.3');
});

test('unusable files end the start before anything is created', async (t) => {
  const directory = directoryOf(t);
  const dataDir = join(directory, 'data');
  const [first, second] = [makePair(directory, 'one'), makePair(directory, 'other')];
  await requireStartRefused(
    { dataDir, tlsCertFile: first.tlsCertFile },
    /tlsCertFile and tlsKeyFile must be set together/,
    /tlsKeyFile is missing/,
  );
  await requireStartRefused({ dataDir, tlsKeyFile: first.tlsKeyFile }, /tlsCertFile is missing/);
  await requireStartRefused(
    { dataDir, ...first, tlsKeyFile: second.tlsKeyFile },
    /the key in .*other\.key does not match .*one\.crt/,
  );
  await requireStartRefused(
    { dataDir, ...first, tlsCertFile: join(directory, 'nowhere') },
    /cannot be read from .*nowhere \(it does not exist\); check tlsCertFile/,
  );
  await requireStartRefused(
    { dataDir, ...first, tlsCertFile: first.tlsKeyFile },
    /one\.key does not contain a PEM certificate/,
  );
  await requireStartRefused(
    { dataDir, ...first, tlsKeyFile: first.tlsCertFile },
    /one\.crt does not contain an unencrypted PEM private key/,
  );
  assert.ok(!existsSync(dataDir), 'the data directory was created');
});

test('on other than loopback addresses the server does not listen without TLS, unless configured to', async (t) => {
  const directory = directoryOf(t);
  const dataDir = join(directory, 'data');
  for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.org', '::ffff:192.0.2.1', '127.evil.example'])
    await requireStartRefused({ dataDir, host }, /--tls-cert-file/, /--tls-key-file/, /--insecure/);
  assert.ok(!existsSync(dataDir), 'the data directory was created');
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
  const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));
  const flags = ['--host=0.0.0.0', '--port=0', `--data-dir=${join(directoryOf(t), 'data')}`];
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...flags], { encoding: 'utf8' });
  assert.deepEqual([status, stdout], [2, '']);
  assert.match(stderr, /^without TLS, the server does not listen on 0\.0\.0\.0.*terminates TLS\n$/);
});

/** As most programs do it: both are written under new names, then renamed one after the other. */
async function replace(files: PairFiles, newPair: PairFiles): Promise<void> {
  for (const name of ['tlsCertFile', 'tlsKeyFile'] as const) {
    await copyFile(newPair[name], `${files[name]}.new`);
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
  const onOpenOne = () => httpsRequest(`${server.url}/livez`, oldCert, { agent });
  assert.equal((await onOpenOne()).certificateName, 'old');

  await replace(live, next);
  await eventually('the new certificate', async () => (await certificateNameAt(server.port)) === 'next');
  assert.deepEqual(((reply) => [reply.status, reply.certificateName])(await onOpenOne()), [200, 'old']);

  const reloads = (outcome: string) =>
    readCounter(server.url, next.tlsCertFile, server.token, `tabularium_tls_reloads_total{outcome="${outcome}"}`);
  const invalidPairs: [string, () => Promise<void>][] = [
    ['the key of another', () => copyFile(last.tlsKeyFile, live.tlsKeyFile)],
    ['no PEM', () => writeFile(live.tlsKeyFile, 'nonsense')],
    ['nothing', () => rm(live.tlsKeyFile)],
  ];
  for (const [description, spoil] of invalidPairs) {
    const before = await reloads('refused');
    await spoil();
    await eventually(description, async () => (await reloads('refused')) > before);
    assert.equal(await certificateNameAt(server.port), 'next', description);
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
  const hiddenFiles = makePair(hidden, 'first', 3);
  const files = { certFile: join(links, 'tls.crt'), keyFile: join(links, 'tls.key') };
  await symlink(hiddenFiles.tlsCertFile, files.certFile);
  await symlink(hiddenFiles.tlsKeyFile, files.keyFile);
  await chmod(hiddenFiles.tlsKeyFile, 0o644);
  const tls = await TlsFiles.open({ ...files, minVersion: 'TLSv1.2', pollMs: 20 });
  const observations: Observation[] = [];
  const kinds = () => observations.map(({ kind }) => kind).sort();
  let used = 0;
  tls.watch(
    () => used++,
    (observation) => observations.push(observation),
  );
  t.after(() => tls.stop());
  await eventually('observations at the start', () => observations.length === 3);
  assert.deepEqual(kinds(), ['tlsExpiring', 'tlsKeyExposed', 'tlsLoaded']);

  observations.length = 0;
  await writeFile(join(directory, 'nonsense'), 'nonsense');
  await rename(join(directory, 'nonsense'), hiddenFiles.tlsKeyFile); // at once, so that no intermediate state is seen
  await eventually('the fault', () => observations.length > 0);
  await sleep(200);
  assert.deepEqual(kinds(), ['tlsReloadFailed']);
  assert.equal(used, 0);

  observations.length = 0;
  const next = makePair(directory, 'second');
  // Two writes in a directory without a watch: between them the pair may be seen as invalid.
  await copyFile(next.tlsKeyFile, hiddenFiles.tlsKeyFile);
  await copyFile(next.tlsCertFile, hiddenFiles.tlsCertFile);
  await eventually('the new pair', () => kinds().includes('tlsReloaded'));
  await sleep(100);
  assert.equal(used, 1);
  assert.equal(observations.filter(({ kind }) => kind === 'tlsReloaded' || kind === 'tlsExpiring').length, 1);
  assert.doesNotMatch(JSON.stringify(observations), /PRIVATE|nonsense/);
});

test('a handshake that does not complete is aborted, and so is plain HTTP; both are counted', async (t) => {
  const files = makePair(directoryOf(t), 'strict');
  const server = await start({ ...files, tlsHandshakeTimeoutMs: spentMs(1500), headersTimeoutMs: 60_000 });
  t.after(() => server.close());
  const brokenRequests = (code: string) =>
    readCounter(server.url, files.tlsCertFile, server.token, `tabularium_broken_requests_total{code="${code}"}`);
  const silentWire = new Wire(server.port);
  const half = new Wire(server.port);
  half.write(Buffer.from('16030100c8010000c4', 'hex')); // only the beginning of a ClientHello
  const plain = new Wire(server.port);
  plain.write('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n');
  for (const wire of [silentWire, half, plain]) {
    const received = await wire.rest();
    assert.doesNotMatch(received, /HTTP|alive/);
  }
  await eventually('all are counted', async () => (await brokenRequests('TLS_HANDSHAKE_FAILED')) === 3);
  assert.equal(await brokenRequests('MALFORMED_HTTP'), 0, 'they were no requests');
});

test('after its handshake a connection on which nothing is sent ends without a response, one with half a head with one', async (t) => {
  const files = makePair(directoryOf(t), 'unused');
  const server = await start({ ...files, headersTimeoutMs: spentMs(1500) });
  t.after(() => server.close());
  const receivedAfter = async (sent: string): Promise<string> => {
    const socket = connect({ port: server.port, host: '127.0.0.1', rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    if (sent !== '') socket.write(sent);
    return await text(socket);
  };
  const [unused, half] = await Promise.all([receivedAfter(''), receivedAfter('GET /livez')]);
  assert.equal(unused, '');
  assert.match(half, /^HTTP\/1\.1 400 [\s\S]*REQUEST_TIMEOUT/);
});

test('a handshake in progress does not delay the stop of the server', async (t) => {
  const files = makePair(directoryOf(t), 'slow');
  const server = await start({ ...files, tlsHandshakeTimeoutMs: 60_000 });
  const wire = new Wire(server.port);
  await new Promise((resolve) => wire.socket.once('connect', resolve));
  await httpsRequest(`${server.url}/livez`, files.tlsCertFile); // accepted after it, so that the server has accepted it too
  const closed = server.close();
  assert.equal(await wire.rest(), ''); // fails after 15 s
  await closed;
});
