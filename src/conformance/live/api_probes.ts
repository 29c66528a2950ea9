// Probes that create nothing: collections, paths and methods that do not exist, credentials, media types (rest-standard A1, A2, A4).
import type { Calls, Exchange } from './calls.ts';
import { envelopeOf } from './exchange_checks.ts';
import type { Findings } from './rules.ts';
import type { Subjects } from './subjects.ts';

const readsMax = 100;

/** Whether a status belongs to the closed set's successes or failures that a probe judges; others are judged by status-closed. */
const isOutside = ({ status }: Exchange): boolean =>
  ![200, 201, 202, 400, 401, 403, 404, 405, 406, 415, 500, 503].includes(status);

/** What is wrong if the status is not the expected one. */
export function statusProblem(exchange: Exchange, expected: readonly number[], what: string): string | undefined {
  if (expected.includes(exchange.status) || isOutside(exchange)) return undefined;
  const code = envelopeOf(exchange)?.code;
  return `${what} is ${exchange.status}${code === undefined || code === '0' ? '' : ` ${code}`} instead of ${expected.join(' or ')}`;
}

/** @returns the first collection that can be read. */
export async function readCollections(
  { reads }: Subjects,
  calls: Calls,
  findings: Findings,
): Promise<string | undefined> {
  let readable: string | undefined;
  for (const path of reads.slice(0, readsMax)) {
    const exchange = await calls.send({ method: 'GET', path });
    if (exchange.status === 401 || exchange.status === 403) {
      findings.note('get', `GET ${path} is refused with ${exchange.status}: the credentials do not allow it`);
      continue;
    }
    findings.check('get', exchange, statusProblem(exchange, [200], 'a list'));
    if (exchange.status < 300) readable ??= path;
  }
  if (reads.length > readsMax)
    findings.note('get', `only the first ${readsMax} of ${reads.length} collections were read`);
  return readable;
}

export async function probeService(
  path: string,
  subjects: Subjects,
  hasCredentials: boolean,
  calls: Calls,
  findings: Findings,
): Promise<void> {
  const version = path.split('/').slice(0, 3).join('/');
  for (const unknown of [`${version}/unregistered_${Date.now().toString(36)}_categories`, `${path}/%zz`]) {
    const exchange = await calls.send({ method: 'GET', path: unknown });
    findings.check('unregistered', exchange, statusProblem(exchange, [404], 'a URI that is no API'));
  }
  const html = await calls.send({ method: 'GET', path, headers: { accept: 'text/html' } });
  findings.check('notAcceptable', html, statusProblem(html, [406], 'a response in another format than that of Accept'));
  if (subjects.withoutPatch !== undefined) {
    const patch = await calls.send({ method: 'PATCH', path: subjects.withoutPatch, body: '{}' });
    findings.check('wrongMethod', patch, statusProblem(patch, [405], 'a method that the path does not have'));
    if (patch.status === 405 && !patch.headers.has('allow'))
      findings.note('wrongMethod', 'a 405 has no Allow header, which HTTP requires');
  }
  if (hasCredentials) await probeCredentials(path, subjects, calls, findings);
}

async function probeCredentials(
  path: string,
  { needsCredentials }: Subjects,
  calls: Calls,
  findings: Findings,
): Promise<void> {
  const without = await calls.send({ method: 'GET', path, authorization: 'none' });
  const isOpen = without.status === 200 && needsCredentials !== true;
  if (isOpen) findings.note('unauthenticated', `GET ${path} needs no credentials, and no document says that it does`);
  findings.check(
    'unauthenticated',
    without,
    isOpen ? undefined : statusProblem(without, [401], 'a request without credentials'),
  );
  const wrong = await calls.send({ method: 'GET', path, authorization: 'Bearer wrong-credentials-of-conform' });
  const isIgnored = isOpen && wrong.status === 200;
  findings.check(
    'unauthenticated',
    wrong,
    isIgnored ? undefined : statusProblem(wrong, [401], 'a request with wrong credentials'),
  );
}
