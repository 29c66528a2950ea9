// The process of the engine: serves one file to any number of servers on a port of the loopback interface. It outlives them, and never
// reads or writes their files. Its argument is the path of the file; the port is the only line that it prints.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Call, failedEnd } from './calls.ts';
import { Writer } from './database.ts';
import { type Engine, type OperationName, operations } from './operations.ts';

const [, , file = ''] = process.argv;
const writer = new Writer(file);
const version = String(writer.connection.row('SELECT sqlite_version() AS version')?.version);
const engine: Engine = { file, writer, version };
/** Calls under way, by the id that their server gave them. */
const running = new Map<string, Call>();

/** Paths: `/<operation>/<id of the call>`. */
async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [, operation = '', id = ''] = (request.url ?? '').split('/');
  const call = new Call(request, response);
  if (operation === 'cancel' || operation === 'assignStep') {
    const argument = (await call.argument()) as string | null;
    const target = running.get(id);
    if (operation === 'cancel') target?.cancel();
    call.end({ value: operation === 'assignStep' && (target?.assignStep(argument ?? '') ?? false) });
    return;
  }
  running.set(id, call);
  try {
    const run = operations[operation as OperationName] as (on: Engine, argument: unknown, call: Call) => unknown;
    call.end({ value: await run(engine, await call.argument(), call) });
  } catch (error) {
    call.end(failedEnd(error));
  } finally {
    running.delete(id);
  }
}

const server = createServer((request, response) => {
  // Only a call whose server has gone fails here: there is nobody to answer.
  serve(request, response).catch(() => response.destroy());
});
server.requestTimeout = 0;
server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
