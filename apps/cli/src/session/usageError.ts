/** An invalid command: exit code 2, and nothing was done. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
