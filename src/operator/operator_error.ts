// Errors that the operator of the server can correct. A command prints their message without a stack trace.

/** The message says what is wrong and what to do. */
export class OperatorError extends Error {
  override readonly name: string = 'OperatorError';
  /** The exit code of the command that prints the message. */
  readonly exitCode: number = 1;
}

/** An invalid setting. The message names it as written, and the allowed values. */
export class SettingsError extends OperatorError {
  override readonly name: string = 'SettingsError';
  override readonly exitCode: number = 2;
}
