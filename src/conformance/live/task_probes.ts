// Tasks that the service answers creations, changes and deletions with: polled, cancelled and deleted by their URI (rest-standard A2, A3). Which
// request cancels a task, and which states it has, the standard leaves open.
import { statusProblem } from './api_probes.ts';
import type { Exchange } from './calls.ts';
import { exists, isSuccess, type ObjectProbe, objectPath, outcomeOf, uriPath } from './object_probe.ts';

/** For an object that a cancelled task may still create. */
const cancelledMs = 500;

/** Polls a task until what it was submitted for is the case. @returns false: not in time. */
export async function followTask(
  probe: ObjectProbe,
  exchange: Exchange,
  isDone: () => Promise<boolean>,
): Promise<boolean> {
  const { calls, findings, taskTimeoutMs } = probe;
  if (!exchange.headers.has('location')) findings.note('taskUri', 'a 202 has no Location header');
  const path = uriPath(probe, exchange, 'taskUri');
  const isShown = path !== undefined && (await isPolled(probe, path, 'taskUri'));
  if (await calls.until(isDone, taskTimeoutMs)) {
    if (isShown) await probeTaskDeletion(probe, path);
    return true;
  }
  findings.note(
    'taskUri',
    `the task of ${exchange.method} ${exchange.path} was not done after ${taskTimeoutMs / 1000} s`,
  );
  return false;
}

async function isPolled(
  { calls, findings }: ObjectProbe,
  path: string,
  rule: 'taskUri' | 'taskCancel',
): Promise<boolean> {
  const task = await calls.send({ method: 'GET', path });
  findings.check(rule, task, statusProblem(task, [200], 'the URI of a task'));
  return isSuccess(task);
}

/** Of a task that has ended, once for each collection. */
async function probeTaskDeletion(probe: ObjectProbe, path: string): Promise<void> {
  const { calls, findings, tasks, taskTimeoutMs } = probe;
  if (tasks.isDeletionProbed) return;
  tasks.isDeletionProbed = true;
  const remove = async (what: string): Promise<Exchange> => {
    const exchange = await calls.send({ method: 'DELETE', path });
    const isDenied = exchange.status === 401 || exchange.status === 403;
    if (isDenied)
      findings.note('taskDelete', `DELETE of a task is ${outcomeOf(exchange)}: the credentials do not allow it`);
    else findings.check('taskDelete', exchange, statusProblem(exchange, [200, 202], what));
    return exchange;
  };
  const first = await remove('a deletion of a task');
  if (!isSuccess(first)) return;
  const isGone = async (): Promise<boolean> => !isSuccess(await calls.send({ method: 'GET', path }));
  const isDeleted = first.status === 202 ? await calls.until(isGone, taskTimeoutMs) : await isGone();
  findings.check('taskDelete', first, isDeleted ? undefined : 'the task is still shown after it was deleted');
  await remove('a deletion of a task that does not exist');
}

/**
 * Cancels the task of a creation by its action `cancel`. A service that has no such action cancels in another way, which is noted; so is a
 * refusal where the task may have ended before. `submitted`: the response 202 to the creation of the object of this name.
 */
export async function probeTaskCancel(probe: ObjectProbe, submitted: Exchange, name: string): Promise<void> {
  const { calls, findings, created } = probe;
  const path = uriPath(probe, submitted, 'taskUri');
  if (path === undefined) return;
  const exchange = await calls.send({ method: 'POST', path: `${path}/cancel`, body: '{}' });
  if (exchange.status === 404 || exchange.status === 405)
    return findings.note(
      'taskCancel',
      `POST to the action cancel of a task is ${outcomeOf(exchange)}: how it is cancelled is not known`,
    );
  if (exchange.status === 400 && (await exists(probe, name)))
    return findings.note('taskCancel', `a task that has ended before is not cancelled: ${outcomeOf(exchange)}`);
  findings.check(
    'taskCancel',
    exchange,
    statusProblem(exchange, [200, 202], 'the cancellation of a task that has not ended'),
  );
  if (!isSuccess(exchange)) return;
  await isPolled(probe, path, 'taskCancel');
  const isCreated = await calls.until(() => exists(probe, name), cancelledMs);
  if (isCreated)
    findings.note('taskCancel', 'the object of a cancelled creation exists: the task had ended, or continued');
  // It is deleted at the end if it ever appears; one that was cancelled at once does not.
  if (exchange.status === 200) created.pending.delete(objectPath(probe, name));
  else created.pending.set(objectPath(probe, name), 'sent');
}
