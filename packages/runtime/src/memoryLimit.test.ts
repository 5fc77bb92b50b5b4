import { totalmem } from 'node:os';
import { describe, expect, it } from 'vitest';
import { memoryLimitBytes } from './memoryLimit.ts';

describe('the memory limit', () => {
  it.each([
    ['cgroup v2', 'memory.max'],
    ['cgroup v1', 'memory.limit_in_bytes'],
  ])('is that of the container (%s)', (_version, file) => {
    expect(memoryLimitBytes((path) => (path.endsWith(file) ? 1_000_000 : undefined))).toBe(1_000_000);
  });

  it('is at most what the machine has', () => {
    for (const none of [undefined, 0, 2 ** 63, Number.MAX_VALUE]) {
      const bytes = memoryLimitBytes(() => none);
      expect(bytes).toBeGreaterThan(0);
      expect(bytes).toBeLessThanOrEqual(totalmem());
    }
  });
});
