// What the user of a command can do about a failure.
import type { TabulariumError } from './errors.ts';

const adviceByStatus: Readonly<Record<number, string>> = {
  400: 'the request is not valid for the state of the server: correct it as the message says, then send it again',
  401: 'the token is not valid: use the one in the file root.token of the data directory of this server',
  403: 'the token is valid, but its principal lacks a privilege: use the token of one that has it, such as root',
  404: 'the object or API does not exist: check the URL, and that it is the URL of a Tabularium server of this version',
  405: 'the method is not supported by this API: see /openapi.json of the server',
  406: 'the server responds in application/json only',
  415: 'the media type of the body is not accepted by this API',
  500: 'an internal error of the server: search its log for the errorId, then retry',
  503: 'the server cannot process the request at the moment: retry later',
};

export function adviceFor({ status, code, result }: TabulariumError): string {
  const { task } = result as { readonly task?: { readonly uri: string } };
  if (task !== undefined) return `see ${task.uri}`;
  if (status === 0) return 'check that the server runs and is reachable at this URL';
  if (code === 'NO_ENVELOPE') return 'check that a Tabularium server is at this URL';
  return adviceByStatus[status] ?? 'the response is not from a Tabularium server: check the URL';
}
