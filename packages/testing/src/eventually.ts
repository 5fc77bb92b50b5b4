import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Repeats an assertion until it passes, and returns its result. Throws its last error when the time is up.
 * Defaults: 60 s, every 20 ms. The time-out only ends what hangs: it is no bound of what is tested, and a busy machine needs long.
 */
export async function eventually<T>(
  assertion: () => T | Promise<T>,
  { timeoutMs = 60_000, intervalMs = 20 }: { timeoutMs?: number; intervalMs?: number } = {},
): Promise<T> {
  for (const deadline = Date.now() + timeoutMs; ; await sleep(intervalMs)) {
    try {
      return await assertion();
    } catch (error) {
      if (Date.now() >= deadline) throw error;
    }
  }
}
