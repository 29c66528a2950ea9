// The life of objects in one collection: creation by POST and PUT, names, changes, deletion (rest-standard A1, A2, A3, A5). All names are in the
// namespace that the kit was given, and every object that may have been created is in `created` before the request is sent.
import { fieldsOf } from '../document/nodes.ts';
import { statusProblem } from './api_probes.ts';
import type { Exchange } from './calls.ts';
import { envelopeOf } from './exchange_checks.ts';
import { exists, isSuccess, type ObjectProbe, objectPath, outcomeOf, uriPath } from './object_probe.ts';
import type { CreationPath } from './subjects.ts';
import { followTask, probeTaskCancel } from './task_probes.ts';

const creationPath = (probe: ObjectProbe, { place }: CreationPath, name: string): string =>
  ({
    collection: probe.subject.collection,
    create: `${probe.subject.collection}/create`,
    object: objectPath(probe, name),
  })[place];

/** Sends a creation. An accepted task is waited for. */
async function create(probe: ObjectProbe, creation: CreationPath, name: string, body?: string): Promise<Exchange> {
  const { subject, created } = probe;
  const path = objectPath(probe, name);
  const exchange = await sendCreation(probe, creation, name, body ?? JSON.stringify(subject.body.of(name)));
  if (exchange.status === 202 && (await followTask(probe, exchange, () => exists(probe, name))))
    created.pending.delete(path);
  if (exchange.status === 201) await followUri(probe, exchange, name);
  return exchange;
}

/** The object is deleted at the end, whatever becomes of the request. */
async function sendCreation(
  probe: ObjectProbe,
  creation: CreationPath,
  name: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Exchange> {
  const { calls, created } = probe;
  const path = objectPath(probe, name);
  created.paths.add(path);
  created.pending.set(path, 'sent');
  const exchange = await calls.send({
    method: creation.method,
    path: creationPath(probe, creation, name),
    body,
    headers,
  });
  if (exchange.status === 202) created.pending.set(path, 'accepted');
  else created.pending.delete(path);
  return exchange;
}

async function followUri(probe: ObjectProbe, exchange: Exchange, name: string): Promise<void> {
  const path = uriPath(probe, exchange, 'createdUri');
  if (path === undefined) return;
  const shown = await probe.calls.send({ method: 'GET', path });
  probe.findings.check(
    'createdUri',
    shown,
    isSuccess(shown) ? undefined : `the URI of a created object is ${outcomeOf(shown)} instead of 200`,
  );
  // A service that gives its objects other segments than their names; a URI that shows something else is left alone.
  const isInCollection =
    path.startsWith(`${probe.subject.collection}/`) && !path.slice(probe.subject.collection.length + 1).includes('/');
  if (isInCollection && shown.text.includes(name)) probe.created.paths.add(path);
}

/** The first creation of a method that the service has. */
async function firstCreation(
  probe: ObjectProbe,
  method: 'POST' | 'PUT',
  name: string,
): Promise<{ creation: CreationPath; exchange: Exchange } | undefined> {
  for (const creation of probe.subject.creations.filter((each) => each.method === method)) {
    const exchange = await create(probe, creation, name);
    if (exchange.status !== 404 && exchange.status !== 405) return { creation, exchange };
  }
  return undefined;
}

/** An object for what is below it. @returns whether it exists. */
export async function createParent(probe: ObjectProbe, name: string): Promise<boolean> {
  const made = (await firstCreation(probe, 'POST', name)) ?? (await firstCreation(probe, 'PUT', name));
  return made !== undefined && isSuccess(made.exchange);
}

/** Runs all probes of a subject. @returns the refusal of the first creation, after which nothing else is probed. */
export async function probeObjects(probe: ObjectProbe): Promise<Exchange | undefined> {
  const { findings } = probe;
  const name = probe.newName();
  const posted = await firstCreation(probe, 'POST', name);
  if (posted && !isSuccess(posted.exchange)) return posted.exchange;
  if (posted) await probePost(probe, posted, name);
  await probePut(probe);
  // A service without POST.
  if (!posted) await firstCreation(probe, 'PUT', name);
  const shown = await probe.calls.send({ method: 'GET', path: objectPath(probe, name) });
  if (posted && shown.status === 404) {
    findings.check('objectNames', shown, 'the object is not shown under the name with which it was created');
    return undefined;
  }
  findings.check('get', shown, statusProblem(shown, [200], 'an object'));
  if (!isSuccess(shown)) return undefined;
  await probePatch(probe, name);
  await probeNames(probe);
  await probeDelete(probe, name);
  return undefined;
}

async function probePost(
  probe: ObjectProbe,
  { creation, exchange }: { creation: CreationPath; exchange: Exchange },
  name: string,
): Promise<void> {
  const { findings, calls, subject } = probe;
  findings.check('post', exchange, statusProblem(exchange, [201, 202], 'a creation'));
  if (exchange.status === 202) await probeCancelledCreation(probe, creation);
  const again = await create(probe, creation, name);
  findings.check(
    'post',
    again,
    isSuccess(again) ? `POST of an object that exists is ${again.status}: it must fail` : undefined,
  );
  if (!isSuccess(again)) {
    const text = `POST of an object that exists is ${outcomeOf(again)}`;
    findings.note('post', text, `exists: ${again.status} ${envelopeOf(again)?.code}`);
  }
  await probeBodies(probe, creation);
  const missing = await calls.send({
    method: 'GET',
    path: `${subject.collection}/${encodeURIComponent(probe.newName())}`,
  });
  findings.check(
    'get',
    missing,
    isSuccess(missing) ? `an object that does not exist is shown with ${missing.status}` : undefined,
  );
  const text = `a missing object is ${outcomeOf(missing)}`;
  findings.note('get', text, `missing: ${missing.status} ${envelopeOf(missing)?.code}`);
}

async function probeCancelledCreation(probe: ObjectProbe, creation: CreationPath): Promise<void> {
  const name = probe.newName();
  const submitted = await sendCreation(probe, creation, name, JSON.stringify(probe.subject.body.of(name)));
  if (submitted.status === 202) await probeTaskCancel(probe, submitted, name);
}

/** Bodies that must be refused; what they would create has a name in the namespace too. */
async function probeBodies(probe: ObjectProbe, creation: CreationPath): Promise<void> {
  const { findings, subject } = probe;
  const send = (name: string, body: string, contentType = 'application/json') =>
    sendCreation(probe, creation, name, body, { 'content-type': contentType });
  const text = probe.newName();
  const plain = await send(text, JSON.stringify(subject.body.of(text)), 'text/plain');
  findings.check('mediaType', plain, statusProblem(plain, [415], 'a body of text/plain'));
  const markup = await send(probe.newName(), '<name>conform</name>');
  findings.check('mediaType', markup, statusProblem(markup, [415], 'XML that is declared as JSON'));
  const broken = await send(probe.newName(), '{"name": ');
  findings.note('mediaType', `JSON that breaks off is ${outcomeOf(broken)}`);
  const list = await send(probe.newName(), '[]');
  findings.check('invalidParameters', list, statusProblem(list, [400], 'an array as the body'));
  const wrong = await send(probe.newName(), JSON.stringify(withObjectName(subject.body.of('x'))));
  findings.check('invalidParameters', wrong, statusProblem(wrong, [400], 'a name that is an object'));
}

/** A body in which every text is an object. */
const withObjectName = (body: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(body).map(([key, value]) => [key, typeof value === 'string' ? { text: value } : value]),
  );

async function probePut(probe: ObjectProbe): Promise<void> {
  const { findings, subject } = probe;
  const name = probe.newName();
  const put = await firstCreation(probe, 'PUT', name);
  if (!put) return;
  if (subject.body.isGuessed && put.exchange.status === 400)
    return findings.note('put', `PUT ${put.exchange.path} does not create another object: ${outcomeOf(put.exchange)}`);
  findings.check('put', put.exchange, statusProblem(put.exchange, [201, 202], 'a creation'));
  if (!isSuccess(put.exchange)) return;
  const again = await create(probe, put.creation, name);
  findings.check('put', again, statusProblem(again, [201, 202], 'PUT of an object that exists'));
  const atObject = subject.creations.find(({ method, place }) => method === 'PUT' && place === 'object');
  if (atObject) await probePrecedence(probe, atObject);
}

async function probePrecedence(probe: ObjectProbe, creation: CreationPath): Promise<void> {
  const { findings, created, subject } = probe;
  const [inPath, inBody] = [probe.newName(), probe.newName()];
  created.paths.add(objectPath(probe, inBody));
  const exchange = await create(probe, creation, inPath, JSON.stringify(subject.body.of(inBody)));
  if (exchange.status === 404 || exchange.status === 405) return;
  if (!isSuccess(exchange)) {
    findings.note('precedence', `a name in the body other than that of the path is ${outcomeOf(exchange)}`);
    findings.check('precedence', exchange, undefined);
    return;
  }
  const isWrong = (await exists(probe, inBody)) || !(await exists(probe, inPath));
  findings.check(
    'precedence',
    exchange,
    isWrong ? 'the object has the name of the body instead of that of the path' : undefined,
  );
}

async function probePatch(probe: ObjectProbe, name: string): Promise<void> {
  const { calls, findings } = probe;
  const { update } = probe.subject;
  if (!update) return;
  const path = objectPath(probe, name);
  const exchange = await calls.send({ method: 'PATCH', path, body: JSON.stringify(update.fields) });
  if (update.isGuessed && exchange.status === 400)
    return findings.note('patch', `PATCH ${path} of ${Object.keys(update.fields).join()} is ${outcomeOf(exchange)}`);
  findings.check('patch', exchange, statusProblem(exchange, [200, 202], 'a change of one field'));
  if (!isSuccess(exchange)) return;
  const isChanged = async (): Promise<boolean> => {
    const shown = fieldsOf(envelopeOf(await calls.send({ method: 'GET', path }))?.result);
    // A field that is not shown cannot be compared.
    return Object.entries(update.fields).every(([key, value]) => shown[key] === undefined || shown[key] === value);
  };
  if (exchange.status === 202) await followTask(probe, exchange, isChanged);
  findings.check(
    'patch',
    exchange,
    (await isChanged()) ? undefined : 'the field has its earlier value after the change',
  );
}

async function probeNames(probe: ObjectProbe): Promise<void> {
  const { findings, calls } = probe;
  const name = probe.newName(' ü');
  const made = (await firstCreation(probe, 'POST', name)) ?? (await firstCreation(probe, 'PUT', name));
  if (!made) return;
  if (!isSuccess(made.exchange)) {
    findings.check('objectNames', made.exchange, undefined);
    findings.note('objectNames', `a name with a space and a letter outside ASCII is ${outcomeOf(made.exchange)}`);
    return;
  }
  const shown = await calls.send({ method: 'GET', path: objectPath(probe, name) });
  findings.check(
    'objectNames',
    shown,
    isSuccess(shown) ? undefined : `an object under its percent-encoded name is ${outcomeOf(shown)} instead of 200`,
  );
}

async function probeDelete(probe: ObjectProbe, name: string): Promise<void> {
  const { calls, findings } = probe;
  const path = objectPath(probe, name);
  const isGone = async (): Promise<boolean> => !(await exists(probe, name));
  const remove = async (what: string): Promise<Exchange> => {
    const exchange = await calls.send({ method: 'DELETE', path });
    findings.check('delete', exchange, statusProblem(exchange, [200, 202], what));
    if (exchange.status === 202) await followTask(probe, exchange, isGone);
    return exchange;
  };
  const first = await remove('a deletion');
  if (!isSuccess(first)) return;
  findings.check('delete', first, (await isGone()) ? undefined : 'the object is still shown after it was deleted');
  await remove('a deletion of an object that does not exist');
}
