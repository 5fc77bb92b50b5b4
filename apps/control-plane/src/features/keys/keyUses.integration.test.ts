import { newId } from '@weighbridge/domain';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import { KeyUses } from './keyUses.service.ts';

/** When a key was last used: every use counts, few are written. */

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  await api.keyUses.write({ all: true });
  api.now = new Date('2026-11-20T10:00:00Z');
});

const later = (seconds: number) => {
  api.now = new Date(api.now.getTime() + seconds * 1_000);
};
const lastUsed = async (id: string) => {
  const { last_used_at: at } = await api.db
    .selectFrom('keys')
    .select('last_used_at')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  return at?.toISOString() ?? null;
};
const issue = () => api.issue({ scopes: ['keys:read', 'keys:write'], principal_id: newId('req') });

describe('a use of the operator API', () => {
  it.each([
    ['a read', 'GET', '/keys', 200],
    ['a missing scope', 'GET', '/policies', 403],
    ['a missing resource', 'GET', '/keys/key_none', 404],
    ['an unknown query', 'GET', '/keys?x=1', 400],
    ['a body that breaks a rule', 'POST', '/keys', 400],
  ] as const)('counts: %s', async (_use, method, path, status) => {
    const { id, key } = await issue();
    later(90);
    expect((await api.call(method, path, { key, ...(method === 'POST' && { body: {} }) })).status).toBe(
      status,
    );
    // Nothing is written for the request itself.
    expect(await lastUsed(id)).toBeNull();
    await api.keyUses.write();
    expect(await lastUsed(id)).toBe(api.now.toISOString());
  });

  it('does not count if the key was refused', async () => {
    const { id, key } = await issue();
    await api.call('PATCH', `/keys/${id}`, { body: { disabled: true } });
    expect((await api.call('GET', '/keys', { key })).status).toBe(401);
    await api.keyUses.write({ all: true });
    expect(await lastUsed(id)).toBeNull();
  });

  it('changes neither updated_at nor the revision', async () => {
    const { id, key } = await issue();
    const revision = () => api.db.selectFrom('revision').select('revision').executeTakeFirstOrThrow();
    const before = await revision();
    later(60);
    const { body } = await api.call('GET', `/keys/${id}`, { key });
    await api.keyUses.write();
    expect((await api.call('GET', `/keys/${id}`)).body).toEqual({
      ...body,
      last_used_at: api.now.toISOString(),
    });
    expect(await revision()).toEqual(before);
  });
});

describe('the last use', () => {
  it('is always written, at most every twenty seconds', async () => {
    const { id } = await issue();
    const written = new Set<string | null>();
    for (let second = 0; second < 120; second += 2) {
      later(2);
      api.keyUses.note(id);
      await api.keyUses.write();
      const at = await lastUsed(id);
      written.add(at);
      expect(api.now.getTime() - Date.parse(String(at))).toBeLessThan(21_000);
    }
    expect(written.size).toBeLessThanOrEqual(7);
    const last = api.now.toISOString();
    later(20);
    await api.keyUses.write();
    expect(await lastUsed(id)).toBe(last);
  });

  it('never goes back, and is never in the future', async () => {
    const { id } = await issue();
    api.keyUses.note(id, api.now.getTime() + 60_000);
    await api.keyUses.write();
    const at = api.now.toISOString();
    expect(await lastUsed(id)).toBe(at);
    later(60);
    api.keyUses.note(id, api.now.getTime() - 120_000);
    await api.keyUses.write();
    expect(await lastUsed(id)).toBe(at);
  });

  it('is written for many keys at once, of which some do not exist', async () => {
    const known = await issue();
    for (let n = 0; n < 6_000; n++) api.keyUses.note(newId('key'));
    api.keyUses.note(known.id);
    await api.keyUses.write();
    expect(await lastUsed(known.id)).toBe(api.now.toISOString());
  });

  it('is written later if the database fails', async () => {
    const { id } = await issue();
    const warnings: unknown[] = [];
    let db = {} as TestApi['db'];
    const uses = new KeyUses({
      get db() {
        return db;
      },
      logger: { warn: (...all: unknown[]) => void warnings.push(all) },
      nowMs: () => api.now.getTime(),
    });
    uses.note(id);
    await uses.write();
    expect([await lastUsed(id), warnings.length]).toEqual([null, 1]);
    db = api.db;
    await uses.close();
    expect(await lastUsed(id)).toBe(api.now.toISOString());
  });
});
