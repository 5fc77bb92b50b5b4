import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Repeats an assertion until it passes, and returns its result. Throws its last error when the time is up.
 * Defaults: 5 s, every 20 ms.
 */
export async function eventually<T>(
  assertion: () => T | Promise<T>,
  { timeoutMs = 5_000, intervalMs = 20 }: { timeoutMs?: number; intervalMs?: number } = {},
): Promise<T> {
  for (const deadline = Date.now() + timeoutMs; ; await sleep(intervalMs)) {
    try {
      return await assertion();
    } catch (error) {
      if (Date.now() >= deadline) throw error;
    }
  }
}
