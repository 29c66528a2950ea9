// Sends the request of a command, page by page for a list; a task that it becomes is waited for, with its progress shown.
import type { DeclaredCategory, DeclaredEndpoint } from '../../api/declare.ts';
import { randomId } from '../../client/random_id.ts';
import { Task, type TaskRecord } from '../../client/task.ts';
import type { Answer, Outgoing } from '../../client/transport.ts';
import { camelCase } from '../../standard/camel_case.ts';
import { isMutation } from '../../standard/endpoint.ts';
import type { CallOptions, Runtime } from './call_options.ts';
import type { Connection } from './connection.ts';
import type { Fields } from './output/records.ts';
import { waitForTask } from './task_progress.ts';

export interface Call {
  readonly category: DeclaredCategory;
  readonly endpoint: DeclaredEndpoint;
  /** Below the URL of the server, percent-encoded. */
  readonly path: string;
  readonly fields: Fields;
  readonly options: CallOptions;
}

const methods = { list: 'GET', get: 'GET', create: 'POST', update: 'PATCH', delete: 'DELETE', action: 'POST' } as const;
/** How long the server waits for the end of a task before it answers with it; the command then waits for the task. */
const waitMs = 30_000;

export function runCall(call: Call, { transport }: Connection, runtime: Runtime) {
  const send = (fields: Fields) => transport.send(outgoingOf(call, fields, runtime.signal));
  return {
    async *pages(): AsyncGenerator<readonly Fields[]> {
      for (let pageToken: unknown, isFirst = true; isFirst || pageToken !== undefined; isFirst = false) {
        const { result } = await send(pageToken === undefined ? call.fields : { ...call.fields, pageToken });
        yield itemsOf(call, result);
        pageToken = result.nextPageToken;
      }
    },
    /** The result of the call, or of the task that it became. */
    async result(): Promise<Fields> {
      const { status, result } = await send(call.fields);
      if (status !== 202) return result;
      const record = result as unknown as TaskRecord;
      if (call.options.wait === false) return result;
      const task = new Task<Fields | null>(transport, record);
      return (await waitForTask(task, runtime.output(call.options), runtime.signal)) ?? task.record;
    },
  };
}

/** The one list in a page. */
function itemsOf({ category, endpoint }: Call, result: Answer['result']): readonly Fields[] {
  const own = result[camelCase(category.name)];
  const items = endpoint.verb === 'action' && own === undefined ? Object.values(result).find(Array.isArray) : own;
  return (items ?? []) as readonly Fields[];
}

function outgoingOf({ endpoint, path, options }: Call, fields: Fields, signal: AbortSignal): Outgoing {
  const { verb } = endpoint;
  const isWrite = isMutation(endpoint);
  const method = verb === 'create' && options.ifExists === 'return' ? 'PUT' : methods[verb];
  const hasBody = method !== 'GET' && method !== 'DELETE';
  return {
    method,
    path: hasBody ? path : path + queryOf(fields),
    ...(hasBody ? { body: fields } : {}),
    isRead: !isWrite && endpoint.task === undefined,
    idempotencyKey: options.idempotencyKey ?? (isWrite ? randomId() : undefined),
    ifMatch: options.ifMatch,
    signal,
    waitMs: endpoint.task === undefined ? 0 : waitMs,
  };
}

function queryOf(fields: Fields): string {
  const given = Object.entries(fields).map(([name, value]) => [name, String(value)]);
  return given.length > 0 ? `?${new URLSearchParams(given)}` : '';
}
