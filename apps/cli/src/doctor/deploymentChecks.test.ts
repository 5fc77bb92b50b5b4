import { expect, it } from 'vitest';
import { inTime } from './deploymentChecks.ts';
import { ok } from './finding.ts';

it('a check is given up when it takes too long, and else says what it found', async () => {
  await expect(inTime(new Promise(() => {}), 10)).rejects.toThrow('no answer within 0.01 s');
  await expect(inTime(Promise.reject(new Error('refused')))).rejects.toThrow('refused');
  const found = [ok('nats', '2.12')];
  expect(await inTime(Promise.resolve(found))).toBe(found);
});
