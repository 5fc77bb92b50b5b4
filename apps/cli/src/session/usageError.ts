/** A command that was not given as it must be: the exit code is 2, and nothing was done. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
