import { ApiError } from '@weighbridge/client';
import { describe, expect, it } from 'vitest';
import { EMPTY_STATE } from '../../test/emptyState.ts';
import type { Json } from './desiredState.ts';
import { type Call, withoutLostUpdates } from './lostUpdates.ts';

/** A service that has these resources, by path; its calls, with their conditions. */
function service(resources: Record<string, Json>, isOld = false) {
  const calls: string[] = [];
  let version = 1;
  const call: Call = async (method, path, body, headers = {}) => {
    const condition = Object.entries(headers).map(([name, value]) => ` ${name}: ${value}`);
    calls.push(`${method} ${path}${condition.join('')}`);
    const current = resources[path];
    if (headers['if-none-match'] && current) {
      const details = { current };
      throw new ApiError({ status: 412, code: 'precondition_failed', message: 'It exists.', details });
    }
    if (method === 'GET') return { body: current ?? {}, etag: isOld ? undefined : `"${version}"` };
    resources[path] = { ...current, ...(body as Json) };
    version++;
    return { body: { id: 'made' }, etag: isOld ? undefined : `"${version}"` };
  };
  return { calls, call };
}

const policy = { id: 'pol_1', name: 'a', limit_micro_usd: 1, updated_at: '2026-11-20T10:00:00.000Z' };
const path = '/api/v1/policies/pol_1';

describe('a change', () => {
  it('depends on the state that was planned for', async () => {
    const { calls, call } = service({ [path]: { ...policy, usable: true } });
    const send = withoutLostUpdates({ ...EMPTY_STATE, policies: [{ ...policy, usable: false }] }, call);
    await send('PATCH', path, { limit_micro_usd: 2 });
    // Its own change is no one else's.
    await send('DELETE', path);
    expect(calls).toEqual([`GET ${path}`, `PATCH ${path} if-match: "1"`, `DELETE ${path} if-match: "2"`]);
  });

  it('of what the run created depends on what it created, and creating depends on nothing', async () => {
    const { calls, call } = service({});
    const send = withoutLostUpdates(EMPTY_STATE, call);
    await send('POST', '/api/v1/profiles', { name: 'a' });
    await send('POST', '/api/v1/profiles', { name: 'b' });
    await send('PATCH', '/api/v1/profiles/made', { name: 'c' });
    expect(calls).toEqual([
      'POST /api/v1/profiles',
      'POST /api/v1/profiles',
      'PATCH /api/v1/profiles/made if-match: "3"',
    ]);
  });

  it('creates a policy only if there is none of its name yet', async () => {
    const { calls, call } = service({});
    const send = withoutLostUpdates(EMPTY_STATE, call);
    await send('POST', '/api/v1/policies', { name: 'a' });
    await expect(send('POST', '/api/v1/policies', { name: 'a' })).rejects.toThrow('Run apply again');
    expect(calls[0]).toBe('POST /api/v1/policies if-none-match: *');
  });

  it('that made what someone else made meanwhile says so, whichever kind it is', async () => {
    for (const code of ['team_name_taken', 'managed_key_exists']) {
      const call: Call = async () => {
        throw new ApiError({ status: 409, code, message: 'It is taken.' });
      };
      const send = withoutLostUpdates(EMPTY_STATE, call);
      await expect(send('POST', '/api/v1/teams', { name: 'a' })).rejects.toThrow(
        'Someone else made it since the plan was made. Run apply again. (It is taken.)',
      );
    }
  });

  it('is not made if someone else made one since the plan', async () => {
    const { calls, call } = service({ [path]: { ...policy, updated_at: '2026-11-20T10:00:00.001Z' } });
    const send = withoutLostUpdates({ ...EMPTY_STATE, policies: [policy] }, call);
    await expect(send('PATCH', path, { limit_micro_usd: 2 })).rejects.toThrow('Run apply again');
    expect(calls).toEqual([`GET ${path}`]);
  });

  it('is made unconditionally by a service that has no ETags', async () => {
    const { calls, call } = service({ [path]: policy }, true);
    await withoutLostUpdates({ ...EMPTY_STATE, policies: [policy] }, call)('DELETE', path);
    expect(calls).toEqual([`GET ${path}`, `DELETE ${path}`]);
  });

  it('of a negotiated price depends on its version, without a read', async () => {
    const prices = { con_1: [{ model: 'mock/a', version: 3, price: {} }] };
    const { calls, call } = service({});
    const send = withoutLostUpdates({ ...EMPTY_STATE, prices }, call);
    await send('PUT', '/api/v1/connectors/con_1/prices/mock%2Fa', {});
    await send('PUT', '/api/v1/connectors/con_1/prices/mock%2Fb', {});
    expect(calls).toEqual([
      'PUT /api/v1/connectors/con_1/prices/mock%2Fa if-match: "3"',
      'PUT /api/v1/connectors/con_1/prices/mock%2Fb if-none-match: *',
    ]);
  });

  it("of a model's price depends on the model", async () => {
    const model = { model: 'mock/a', context_window: 1, updated_at: 'then' };
    const own = '/api/v1/catalog/models/mock%2Fa';
    const { calls, call } = service({ [own]: model });
    const send = withoutLostUpdates({ ...EMPTY_STATE, models: [model] }, call);
    await send('PATCH', own, { context_window: 2 });
    await send('POST', `${own}/prices`, {});
    expect(calls).toEqual([`GET ${own}`, `PATCH ${own} if-match: "1"`, `POST ${own}/prices if-match: "2"`]);
  });
});

describe('a principal or model that is new', () => {
  it('is created only if no one else created it', async () => {
    const own = '/api/v1/principals/ada';
    const { calls, call } = service({});
    await withoutLostUpdates(EMPTY_STATE, call)('PUT', own, { policy_id: 'pol_1' });
    expect(calls).toEqual([`PUT ${own} if-none-match: *`]);
    const taken = service({ [own]: { policy_id: 'pol_2', role: null, active: true } });
    await expect(
      withoutLostUpdates(EMPTY_STATE, taken.call)('PUT', own, { policy_id: 'pol_1' }),
    ).rejects.toThrow('Run apply again');
  });

  it('may have been created by being put into a team', async () => {
    const own = '/api/v1/principals/ada';
    const { calls, call } = service({ [own]: { policy_id: null, role: null, active: true, team_id: 't' } });
    await withoutLostUpdates(EMPTY_STATE, call)('PUT', own, { policy_id: 'pol_1' });
    expect(calls).toEqual([`PUT ${own} if-none-match: *`, `GET ${own}`, `PUT ${own} if-match: "1"`]);
  });
});
