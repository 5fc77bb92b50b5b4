import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';

/** What a leaked key issued can be revoked with it; and how many keys a principal can issue. */

const LIMIT = 6;
let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ MAX_KEYS_PER_PRINCIPAL: String(LIMIT) });
});
afterAll(() => api.close());

const FIELDS = { scopes: ['keys:read', 'keys:write', 'usage:read'] };
let made = 0;
const member = () => api.issue({ ...FIELDS, principal_id: `member-${++made}` });
const revoke = async (id: string, query = '?descendants=true', key = api.operatorKey) =>
  await api.call('DELETE', `/keys/${id}${query}`, { key });
const stateOf = async (id: string) => {
  const { body } = await api.call('GET', `/keys/${id}`);
  return { disabled: body.disabled, revoked: body.revoked_at !== null };
};
const REVOKED = { disabled: true, revoked: true };
const IN_USE = { disabled: false, revoked: false };

describe('DELETE /keys/{key_id}?descendants=true', () => {
  it('revokes what the key issued, what that issued, and nothing else', async () => {
    const root = await member();
    const child = await api.issue(FIELDS, root.key);
    const grandchild = await api.issue(FIELDS, child.key);
    const sibling = await api.issue({ ...FIELDS, principal_id: root.principal_id });
    const other = await member();
    const { status, body } = await revoke(root.id);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id: root.id,
      disabled: true,
      descendants: { revoked: 2, unknown_issuer: 0 },
    });
    expect(body).not.toHaveProperty('key');
    for (const { id } of [root, child, grandchild]) expect(await stateOf(id)).toEqual(REVOKED);
    for (const { id } of [sibling, other]) expect(await stateOf(id)).toEqual(IN_USE);
    expect(await outcome(api.call('GET', '/usage', { key: grandchild.key }))).toEqual([401, 'key_disabled']);
  });

  it('revokes the key alone without it, and the descendants when it is repeated with it', async () => {
    const root = await member();
    const child = await api.issue(FIELDS, root.key);
    const grandchild = await api.issue(FIELDS, child.key);
    for (const query of ['', '?descendants=false']) {
      const { body } = await revoke(root.id, query);
      expect(body).toEqual((await api.call('GET', `/keys/${root.id}`)).body);
    }
    expect(await stateOf(child.id)).toEqual(IN_USE);
    // Through a revoked key too.
    await revoke(child.id, '');
    expect((await revoke(root.id)).body).toMatchObject({ descendants: { revoked: 1 } });
    expect(await stateOf(grandchild.id)).toEqual(REVOKED);
    expect((await revoke(root.id)).body).toMatchObject({ descendants: { revoked: 0 } });
  });

  it('records each in the audit log and tells proxies of each, once', async () => {
    const root = await member();
    const child = await api.issue(FIELDS, root.key);
    const revision = async () =>
      (await api.db.selectFrom('revision').select('revision').executeTakeFirstOrThrow()).revision;
    const before = await revision();
    await revoke(root.id, '?descendants=true', root.key);
    expect(await revision()).toBe(before + 2n);
    const changes = await api.db
      .selectFrom('changes')
      .select(['revision', 'kind', 'resource_id'])
      .where('revision', '>', before)
      .orderBy('revision')
      .execute();
    expect(changes).toEqual([
      { revision: before + 1n, kind: 'key', resource_id: root.id },
      { revision: before + 2n, kind: 'key', resource_id: child.id },
    ]);
    const audited = await api.call('GET', `/audit?resource_id=${child.id}&action=key.revoked`);
    expect(audited.body.data).toMatchObject([
      { actor_key_id: root.id, resource_id: child.id, detail: { descendant_of: root.id } },
    ]);
  });

  it("keeps each key's last governing policy and how it came to govern, as a single revocation does", async () => {
    const policy = (await api.call('POST', '/policies', { body: { name: 'x', self_service: true } })).body
      .id as string;
    const root = await member();
    const [inherits, own] = [
      await api.issue(FIELDS, root.key),
      await api.issue({ ...FIELDS, policy_id: policy }, root.key),
    ];
    const report = async (id: string) => {
      const { policy_id, source } = (await api.call('GET', `/keys/${id}/usage`)).body;
      return { policy_id, source };
    };
    const before = [await report(inherits.id), await report(own.id)];
    await revoke(root.id);
    expect([await report(inherits.id), await report(own.id)]).toEqual(before);
    expect(before.map(({ source }) => source)).toEqual(['default', 'key']);
    // The policy is in no one's use any more.
    expect((await api.call('DELETE', `/policies/${policy}`)).status).toBe(200);
  });

  it('misses no key that is issued while it runs', async () => {
    for (let round = 0; round < 5; round++) {
      const root = await member();
      const child = await api.issue(FIELDS, root.key);
      const issue = async (key: string) =>
        (await api.call('POST', '/keys', { key, body: { name: 'late', ...FIELDS } })).body as Json;
      const [, ...answers] = await Promise.all([
        revoke(root.id),
        ...[root.key, child.key, root.key, child.key].map(issue),
      ]);
      for (const answer of answers) {
        if (answer.id) expect(await stateOf(String(answer.id))).toEqual(REVOKED);
        else expect(answer.error).toMatchObject({ code: 'key_disabled' });
      }
    }
  });

  it('says how many keys in use may descend from it without it being known', async () => {
    const root = await member();
    const [unknown, known] = [await api.issue(FIELDS, root.key), await api.issue(FIELDS, root.key)];
    await api.db
      .updateTable('keys')
      .set({ issued_by_key_id: null, is_issuer_known: false })
      .where('id', '=', unknown.id)
      .execute();
    expect((await revoke(root.id)).body).toMatchObject({ descendants: { revoked: 1, unknown_issuer: 1 } });
    expect(await stateOf(known.id)).toEqual(REVOKED);
    expect(await stateOf(unknown.id)).toEqual(IN_USE);
  });

  it("reaches other principals' keys from an operator's key, which only an operator may revoke", async () => {
    const operator = await api.issue({ scopes: ['operator', ...FIELDS.scopes], principal_id: 'op' });
    const theirs = await api.issue({ ...FIELDS, principal_id: `member-${++made}` }, operator.key);
    const below = await api.issue(FIELDS, theirs.key);
    const colleague = await api.issue({ ...FIELDS, principal_id: 'op' });
    expect(await outcome(revoke(operator.id, '?descendants=true', colleague.key))).toEqual([
      403,
      'insufficient_scope',
    ]);
    expect(await outcome(revoke(operator.id, '?descendants=true', theirs.key))).toEqual([
      404,
      'key_not_found',
    ]);
    expect((await revoke(operator.id)).body).toMatchObject({ descendants: { revoked: 2 } });
    expect(await stateOf(below.id)).toEqual(REVOKED);
    expect(await stateOf(colleague.id)).toEqual(IN_USE);
  });

  it('refuses another value of the query', async () => {
    const { id } = await member();
    for (const query of ['?descendants=', '?descendants=1', '?descendants', '?descendants=TRUE']) {
      expect((await revoke(id, query)).status).toBe(400);
    }
    expect(await stateOf(id)).toEqual(IN_USE);
  });
});

describe('the limit on the keys of a principal', () => {
  const issue = (key: string, name = 'more') =>
    outcome(api.call('POST', '/keys', { key, body: { name, ...FIELDS } }));

  it('is held under concurrent requests, and counts keys that are not revoked, whoever issued them', async () => {
    const root = await member();
    const statuses = await Promise.all(Array.from({ length: 12 }, () => issue(root.key)));
    expect(statuses.filter(([status]) => status === 201)).toHaveLength(LIMIT - 1);
    for (const refused of statuses.filter(([status]) => status !== 201)) {
      expect(refused).toEqual([409, 'key_limit_reached']);
    }
    // Disabled and expired keys can be used again.
    const { data } = (await api.call('GET', '/keys', { key: root.key })).body as { data: { id: string }[] };
    const others = data.filter(({ id }) => id !== root.id);
    await api.call('PATCH', `/keys/${others[0]?.id}`, { body: { disabled: true } });
    expect(await issue(root.key)).toEqual([409, 'key_limit_reached']);
    await revoke(others[0]?.id ?? '', '');
    expect(await issue(root.key)).toEqual([201, undefined]);
    expect(await issue(root.key)).toEqual([409, 'key_limit_reached']);
    // An operator may.
    expect((await api.issue({ ...FIELDS, principal_id: root.principal_id })).principal_id).toBe(
      root.principal_id,
    );
  });

  it('is not counted against a repetition under the same Idempotency-Key', async () => {
    const root = await member();
    const send = () =>
      api.call('POST', '/keys', {
        key: root.key,
        body: { name: 'once' },
        headers: { 'idempotency-key': 'a' },
      });
    const first = await send();
    for (let n = 0; n < LIMIT; n++) await issue(root.key);
    expect(await issue(root.key)).toEqual([409, 'key_limit_reached']);
    expect((await send()).body).toEqual(first.body);
  });
});
