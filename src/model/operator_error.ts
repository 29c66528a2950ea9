// An error that the operator can correct: a command prints its message without a stack.
export class OperatorError extends Error {
  override name = 'OperatorError';
}
