// The options of every command that calls a server, and what such a command runs with.
import { type Command, Option } from 'commander';
import type { DeclaredEndpoint } from '../../api/declare.ts';
import { acceptsIdempotencyKey, isConditional } from '../../standard/endpoint.ts';
import type { Connection, ConnectionOptions } from './connection.ts';
import type { Output } from './output/output.ts';

export interface CallOptions extends ConnectionOptions {
  readonly json?: boolean;
  readonly quiet?: boolean;
  /** Whether a task is waited for. */
  readonly wait?: boolean;
  readonly idempotencyKey?: string;
  readonly ifMatch?: string;
  readonly ifExists?: 'fail' | 'return';
}

export interface Runtime {
  connect(options: ConnectionOptions): Connection;
  output(options: Pick<CallOptions, 'quiet'>): Output;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}

export function addServerOptions(command: Command): Command {
  return command
    .option('--profile <name>', 'the profile to use (tabularium login)')
    .option('--url <url>', 'the URL of the server')
    .option('--token-file <path>', 'a file with the token')
    .option('--json', 'write the result as JSON, and a failure as JSON to the standard error')
    .option('--quiet', 'write no progress and no notes');
}

/** The options that follow from the shape of an endpoint, besides its fields. */
export function addCallOptions(command: Command, endpoint: DeclaredEndpoint): void {
  addServerOptions(command);
  if (acceptsIdempotencyKey(endpoint))
    command.option('--idempotency-key <key>', 'sent again with the same key, the request is applied once');
  if (isConditional(endpoint)) command.option('--if-match <etag>', 'only if the record still has this ETag');
  if (endpoint.verb === 'create' && endpoint.named !== false)
    command.addOption(new Option('--if-exists <what>', 'what an existing object means').choices(['fail', 'return']));
  if (endpoint.task !== undefined) command.option('--no-wait', 'show the task instead of waiting for its end');
}
