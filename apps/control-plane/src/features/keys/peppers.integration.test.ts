import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import { loadPeppers } from './peppers.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

it('lets a pepper be replaced while keys depend on it, for as long as the old one is given', async () => {
  const [first, second] = ['first'.repeat(8), 'second'.repeat(8)];
  const sha256 = randomBytes(32);
  const before = await loadPeppers(api.db, first, api.now);
  await api.issue();
  await api.db.updateTable('key_secrets').set({ pepper_version: before.currentVersion }).execute();
  await expect(loadPeppers(api.db, second, api.now)).rejects.toThrow('WEIGHBRIDGE_PREVIOUS_PEPPERS');
  const both = await loadPeppers(api.db, second, api.now, [first]);
  expect(both.hashes(sha256)).toContainEqual(before.hash(sha256));
  expect(both.currentVersion).toBeGreaterThan(before.currentVersion);
  expect(both.hash(sha256)).not.toEqual(before.hash(sha256));
  // Once no key depends on it, it may be forgotten.
  await api.db.updateTable('key_secrets').set({ pepper_version: both.currentVersion }).execute();
  expect((await loadPeppers(api.db, second, api.now)).hash(sha256)).toEqual(both.hash(sha256));
});
