// Why the server cannot listen at its address, for the operator.
import { OperatorError } from '../../operator/operator_error.ts';

/** The error to throw: an OperatorError for what the operator can correct. */
export function listenError(error: NodeJS.ErrnoException, host: string, port: number): Error {
  const message = describe(error.code, host, port);
  return message === undefined ? error : new OperatorError(message, { cause: error });
}

function describe(code: string | undefined, host: string, port: number): string | undefined {
  switch (code) {
    case 'EADDRINUSE':
      return `another program listens on port ${port} of ${host}: stop it, or choose another port with --port`;
    case 'EACCES':
      return `this user may not listen on port ${port}: choose another with --port, 1024 or greater`;
    case 'EADDRNOTAVAIL':
      return `${host} is not an address of this machine: choose another with --host`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${host} has no address: choose another with --host`;
    default:
      return undefined;
  }
}
