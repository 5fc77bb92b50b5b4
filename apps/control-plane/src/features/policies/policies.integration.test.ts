import { randomUUID } from 'node:crypto';
import { POLICY_SUBJECT } from '@weighbridge/budget';
import { newId } from '@weighbridge/domain';
import { answerLeaseCalls, registerProducer } from '@weighbridge/ledger';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { recordAttempts } from '../../../test/usage.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const create = async (fields: Json = {}): Promise<{ id: string } & Json> => {
  const { status, body } = await api.call('POST', '/policies', { body: { name: 'p', ...fields } });
  expect(status).toBe(201);
  return body as { id: string } & Json;
};
const patch = (id: string, body: Json) => api.call('PATCH', `/policies/${id}`, { body });

/** After every test, a policy governs every key that is not revoked. */
afterEach(async () => {
  const keys = await api.db.selectFrom('keys').select('id').where('revoked_at', 'is', null).execute();
  for (const { id } of keys) expect((await api.call('GET', `/keys/${id}`)).status).toBe(200);
});

describe('a policy', () => {
  it('has the requested settings, and defaults for the others', async () => {
    const body = {
      name: ' team ',
      limit_micro_usd: 5_000_000,
      window: 'week',
      timezone: 'Asia/Kathmandu',
      thresholds: [90, 50, 90],
    };
    const { id, ...policy } = await create(body);
    expect(policy).toEqual({
      name: 'team',
      limit_micro_usd: 5_000_000,
      window: 'week',
      timezone: 'Asia/Kathmandu',
      counter_scope: 'principal',
      enforcement: 'enforce',
      budget_mode: 'balanced',
      hard_allow_fields: [],
      allowed_models: [],
      foreign_objects: 'any',
      translation: 'lenient',
      auto_cache: false,
      queue_ms: 0,
      priority: 0,
      attribution_headers: {},
      user_from_body: false,
      requests_per_minute: null,
      tokens_per_minute: null,
      max_parallel: null,
      parent_policy_id: null,
      default_for: null,
      self_service: false,
      profile_id: null,
      on_exhausted: null,
      cache: null,
      thresholds: [50, 90],
      limits: [],
      created_at: api.now.toISOString(),
      updated_at: api.now.toISOString(),
    });
    expect((await api.call('GET', `/policies/${id}`)).body).toEqual({ id, ...policy });
  });

  it('maps headers in lower case, and is not changed by the same in another case', async () => {
    const { id, attribution_headers, user_from_body, updated_at } = await create({
      name: 'mapping',
      attribution_headers: { 'X-Customer': 'user' },
      user_from_body: true,
    });
    expect([attribution_headers, user_from_body]).toEqual([{ 'x-customer': 'user' }, true]);
    const again = await patch(String(id), { attribution_headers: { 'x-CUSTOMER': 'user' } });
    expect(again.body.updated_at).toBe(updated_at);
    const none = await patch(String(id), { attribution_headers: {} });
    expect(none.body.attribution_headers).toEqual({});
  });

  it('warns of a limit for models that do not exist, and takes it', async () => {
    const limits = [
      { name: 'typo', models: ['acme/none-*'], limit_micro_usd: 5 },
      { name: 'all', limit_micro_usd: 5 },
      { name: 'known', models: ['nobody/*', 'openai/*'], limit_micro_usd: 5 },
    ];
    const made = await api.call('POST', '/policies', { body: { name: 'warned', limits } });
    expect([made.status, made.body.warnings]).toEqual([
      201,
      [expect.stringMatching(/^The models of the limit typo match no model/)],
    ]);
    const read = await api.call('GET', `/policies/${made.body.id}`);
    expect(read.body).not.toHaveProperty('warnings');
    // They are no part of the policy.
    expect(read.headers.etag).toBe(made.headers.etag);
    const changed = await patch(String(made.body.id), { limits: [limits[1], limits[2]] });
    expect(changed.body).not.toHaveProperty('warnings');
  });

  it('has further limits, which stay what they are through edits and a new name', async () => {
    const user = { name: 'each user', counter_scope: 'user', limit_micro_usd: 5 };
    const opus = { name: 'opus', models: ['anthropic/claude-opus*'], limit_micro_usd: 7 };
    const { id, limits } = await create({ name: 'further', limits: [user, opus] });
    const [first, second] = limits as Json[];
    expect([first, second]).toMatchObject([user, opus]);
    const repeated = await patch(String(id), { limits: [user, opus] });
    expect(repeated.body.limits).toEqual(limits);
    const renamed = await patch(String(id), { limits: [{ ...opus, id: second?.id, name: 'large' }] });
    expect(renamed.body.limits).toEqual([{ ...second, name: 'large' }]);
    const twice = await patch(String(id), { limits: [opus, { ...user, name: 'opus' }] });
    expect([twice.status, twice.body.error]).toMatchObject([
      422,
      { code: 'limit_invalid', param: 'limits.1.name' },
    ]);
    expect((await api.call('GET', `/policies/${id}`)).body.limits).toEqual(renamed.body.limits);
    const many = await patch(String(id), { limits: Array.from({ length: 51 }, () => opus) });
    expect(many.status).toBe(400);
  });

  it.each([
    [{ limits: [{ name: 'no amount' }] }, 422, 'limit_invalid'],
    [{ limits: [{ name: 'a', limit_requests: -1 }] }, 400, 'invalid_request'],
    [{ limits: [{ name: 'a', limit_tokens: 1.5 }] }, 400, 'invalid_request'],
    [{ limits: [{ name: 'a', limit_micro_usd: 1, max_counters: 0 }] }, 400, 'invalid_request'],
    [{ limits: [{ name: 'a', limit_micro_usd: 1, max_counters: 10_000_001 }] }, 400, 'invalid_request'],
    [{ limits: [{ name: 'a', limit_micro_usd: 1, window: 'year' }] }, 400, 'invalid_request'],
    [{ name: 5 }, 400, 'invalid_request'],
    [{ limit_micro_usd: -1 }, 400, 'invalid_request'],
    [{ limit_micro_usd: 1.5 }, 400, 'invalid_request'],
    [{ limit_micro_usd: 1e15 + 1 }, 400, 'invalid_request'],
    [{ limit_micro_usd: '5' }, 400, 'invalid_request'],
    [{ window: 'year' }, 400, 'invalid_request'],
    [{ hard_allow_fields: ['tools[2].type'] }, 400, 'invalid_request'],
    [{ hard_allow_fields: ['tools.'] }, 400, 'invalid_request'],
    [{ hard_allow_fields: [''] }, 400, 'invalid_request'],
    [{ thresholds: [0] }, 400, 'invalid_request'],
    [{ foreign_objects: 'none' }, 400, 'invalid_request'],
    [{ translation: 'none' }, 400, 'invalid_request'],
    [{ auto_cache: 'yes' }, 400, 'invalid_request'],
    [{ queue_ms: -1 }, 400, 'invalid_request'],
    [{ queue_ms: 300_001 }, 400, 'invalid_request'],
    [{ priority: 10 }, 400, 'invalid_request'],
    [{ user_from_body: 'yes' }, 400, 'invalid_request'],
    [{ attribution_headers: { 'x-a': 5 } }, 400, 'invalid_request'],
    [
      {
        attribution_headers: Object.fromEntries(
          Array.from({ length: 21 }, (_, n) => [`x-${n}`, `labels.l${n}`]),
        ),
      },
      400,
      'invalid_request',
    ],
    [{ attribution_headers: { cookie: 'user' } }, 422, 'attribution_headers_invalid'],
    [{ requests_per_minute: 0 }, 400, 'invalid_request'],
    [{ counter_version: 7 }, 400, 'invalid_request'],
    [{ name: ' ' }, 422, 'name_invalid'],
    [{ timezone: 'Mars/Olympus' }, 422, 'timezone_invalid'],
    [{ parent_policy_id: newId('pol') }, 422, 'policy_not_found'],
    [{ profile_id: newId('prf') }, 422, 'profile_not_found'],
    [{ default_for: 'all' }, 409, 'default_taken'],
    [{ on_exhausted: { policy_id: newId('pol') } }, 400, 'invalid_request'],
    [{ on_exhausted: { profile_id: newId('prf'), policy_id: newId('pol') } }, 422, 'profile_not_found'],
    [{ on_exhausted: { profile_id: '', policy_id: '' } }, 422, 'profile_not_found'],
  ])('is rejected with %j: %d %s', async (fields, status, code) => {
    expect(await outcome(api.call('POST', '/policies', { body: { name: 'p', ...fields } }))).toEqual([
      status,
      code,
    ]);
    const { id } = await create();
    expect(await outcome(patch(id, fields))).toEqual([status, code]);
  });

  it('changes by PATCH only in the given fields, and not at all by {}', async () => {
    const { id, ...before } = await create({ limit_micro_usd: 1 });
    api.now = new Date(api.now.getTime() + 1_000);
    expect((await patch(id, {})).body).toEqual({ id, ...before });
    expect((await patch(id, { limit_micro_usd: 1 })).body).toEqual({ id, ...before });
    const changed = { ...before, id, limit_micro_usd: null, updated_at: api.now.toISOString() };
    expect((await patch(id, { limit_micro_usd: null })).body).toEqual(changed);
  });

  it('cannot be its own ancestor, nor part of a chain that is too long', async () => {
    const top = await create();
    const middle = await create({ parent_policy_id: top.id });
    const bottom = await create({ parent_policy_id: middle.id });
    expect(await outcome(patch(top.id, { parent_policy_id: bottom.id }))).toEqual([422, 'policy_cycle']);
    expect(await outcome(patch(top.id, { parent_policy_id: top.id }))).toEqual([422, 'policy_cycle']);
    let parent = bottom.id;
    for (let depth = 4; depth <= 8; depth++) parent = (await create({ parent_policy_id: parent })).id;
    expect(
      await outcome(api.call('POST', '/policies', { body: { name: 'p', parent_policy_id: parent } })),
    ).toEqual([422, 'policy_too_deep']);
    const another = await create();
    expect(await outcome(patch(top.id, { parent_policy_id: another.id }))).toEqual([422, 'policy_too_deep']);
  });

  it('forms no cycle when two changes are concurrent', async () => {
    for (let round = 0; round < 5; round++) {
      const [a, b] = [await create(), await create()];
      const outcomes = await Promise.all([
        outcome(patch(a.id, { parent_policy_id: b.id })),
        outcome(patch(b.id, { parent_policy_id: a.id })),
      ]);
      expect(outcomes.map(([status]) => status).sort()).toEqual([200, 422]);
    }
  });
});

it('is created once by those who ask for it at once, if they say so', async () => {
  const name = 'of two runs';
  const once = { body: { name }, headers: { 'if-none-match': '*' } };
  const answers = await Promise.all([1, 2, 3].map(() => api.call('POST', '/policies', once)));
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 412, 412]);
  const made = answers.find(({ status }) => status === 201);
  const refused = answers.find(({ status }) => status === 412);
  expect(refused?.body.error).toMatchObject({ param: 'if-none-match', current: { id: made?.body.id, name } });
  // Otherwise a name may be given twice.
  expect((await api.call('POST', '/policies', { body: { name } })).status).toBe(201);
  await api.call('DELETE', `/policies/${made?.body.id}`);
  expect(await outcome(api.call('POST', '/policies', once))).toEqual([412, 'precondition_failed']);
});

describe('a policy that another one replaces when its budget is used up', () => {
  let profile_id: string;
  beforeAll(async () => {
    const body = { name: 'after', strategy: 'ordered', targets: [{ model: 'mock/echo' }] };
    profile_id = String((await api.call('POST', '/profiles', { body })).body.id);
  });
  const replacedBy = (policy_id: string) => ({ on_exhausted: { profile_id, policy_id } });

  it('is shown, changed and taken away', async () => {
    const other = await create();
    const { id } = await create(replacedBy(other.id));
    expect((await api.call('GET', `/policies/${id}`)).body).toMatchObject(replacedBy(other.id));
    const third = await create();
    expect((await patch(id, replacedBy(third.id))).body).toMatchObject(replacedBy(third.id));
    expect((await patch(id, { name: 'q' })).body).toMatchObject(replacedBy(third.id));
    expect((await patch(id, { on_exhausted: null })).body).toMatchObject({ on_exhausted: null });
  });

  it('forms no circle, neither with others that are replaced nor with parents', async () => {
    const first = await create();
    const second = await create(replacedBy(first.id));
    const circle = [422, 'policy_cycle'];
    expect(await outcome(patch(first.id, replacedBy(second.id)))).toEqual(circle);
    expect(await outcome(patch(first.id, replacedBy(first.id)))).toEqual(circle);
    const below = await create({ parent_policy_id: first.id });
    expect(await outcome(patch(first.id, replacedBy(below.id)))).toEqual(circle);
    expect(await outcome(patch(first.id, { parent_policy_id: second.id }))).toEqual(circle);
    // Its own parent may take over.
    expect((await patch(below.id, replacedBy(first.id))).status).toBe(200);
    const unknown = { profile_id, policy_id: newId('pol') };
    expect(await outcome(patch(first.id, { on_exhausted: unknown }))).toEqual([422, 'policy_not_found']);
  });

  it('is replaced by at most two, one after the other, from whichever end they are joined', async () => {
    const third = await create();
    const second = await create(replacedBy(third.id));
    const first = await create(replacedBy(second.id));
    const tooMany = [422, 'too_many_replacements'];
    const body = { name: 'p', ...replacedBy(first.id) };
    expect(await outcome(api.call('POST', '/policies', { body }))).toEqual(tooMany);
    const fourth = await create();
    expect(await outcome(patch(third.id, replacedBy(fourth.id)))).toEqual(tooMany);
  });

  it('keeps the other policy and the profile from being deleted', async () => {
    const other = await create();
    const { id } = await create(replacedBy(other.id));
    const { status, body } = await api.call('DELETE', `/policies/${other.id}`);
    expect([status, body.error]).toMatchObject([409, { code: 'policy_in_use', used_by: 'policy' }]);
    expect(JSON.stringify(body)).toContain(id);
    expect(await outcome(api.call('DELETE', `/profiles/${profile_id}`))).toEqual([409, 'profile_in_use']);
    await patch(id, { on_exhausted: null });
    expect((await api.call('DELETE', `/policies/${other.id}`)).status).toBe(200);
  });

  it('gives proxies the counters that bind then: parents and teams stay, and it is left out', async () => {
    const company = await create({ counter_scope: 'policy' });
    const pool = await create({ counter_scope: 'policy' });
    const above = await create();
    const last = await create();
    const next = await create({ parent_policy_id: above.id, ...replacedBy(last.id) });
    const own = await create({ parent_policy_id: company.id, ...replacedBy(next.id) });
    const team = (await api.call('POST', '/teams', { body: { name: 'replaced', policy_id: pool.id } })).body;
    await api.call('PUT', `/teams/${team.id}/members/rae`, { body: { role: 'member' } });
    const resolved = async (key: string) => {
      const ids = (counters: readonly { bucket?: { policyId: string } | undefined }[]) =>
        counters.map(({ bucket }) => bucket?.policyId);
      const { policies, replacements } = await api.resolve(key);
      return [ids(policies), ...replacements.map((one) => [one.profileId, ...ids(one.policies)])];
    };
    const { key } = await api.issue({ principal_id: 'rae', policy_id: own.id });
    expect(await resolved(key)).toEqual([
      [own.id, company.id, pool.id],
      [profile_id, next.id, above.id, company.id, pool.id],
      // Of what was replaced on the way, the parents.
      [profile_id, last.id, company.id, above.id, pool.id],
    ]);
    // Where the team's own policy governs, it is replaced, and does not bind any more.
    await patch(pool.id, { parent_policy_id: company.id, ...replacedBy(last.id) });
    const ofTeam = await api.issue({ principal_id: 'rae' });
    expect(await resolved(ofTeam.key)).toEqual([
      [pool.id, company.id],
      [profile_id, last.id, company.id],
    ]);
  });
});

describe('a governing policy', () => {
  it('cannot be removed from a key: not by deletion, its principal or clearing a default', async () => {
    const own = await create();
    const key = await api.issue({ policy_id: own.id });
    expect(await outcome(api.call('DELETE', `/policies/${own.id}`))).toEqual([409, 'policy_in_use']);
    const ofPrincipal = await create();
    await api.call('PUT', '/principals/carol', { body: { policy_id: ofPrincipal.id } });
    expect((await api.issue({ principal_id: 'carol' })).policy_id).toBe(ofPrincipal.id);
    expect(await outcome(api.call('DELETE', `/policies/${ofPrincipal.id}`))).toEqual([409, 'policy_in_use']);
    const { body } = await api.call('GET', '/policies?default_for=all');
    const [standard] = body.data as { id: string }[];
    expect(await outcome(patch(standard?.id ?? '', { default_for: null }))).toEqual([409, 'policy_in_use']);
    expect(await outcome(api.call('DELETE', `/policies/${standard?.id}`))).toEqual([409, 'policy_in_use']);

    await api.call('DELETE', `/keys/${key.id}`);
    expect((await api.call('DELETE', `/policies/${own.id}`)).status).toBe(200);
    expect(await outcome(api.call('GET', `/policies/${own.id}`))).toEqual([404, 'policy_not_found']);
    // A revoked key still shows the policy that governed it.
    expect((await api.call('GET', `/keys/${key.id}`)).body.policy_id).toBe(own.id);
    expect(await outcome(api.call('POST', '/keys', { body: { name: 'a', policy_id: own.id } }))).toEqual([
      422,
      'policy_not_found',
    ]);
  });

  it('is that of the key, else of the principal, else the default for the kind, else the default for all', async () => {
    const [own, ofPrincipal, forUsers] = [
      await create(),
      await create(),
      await create({ default_for: 'user' }),
    ];
    await api.call('PUT', '/principals/dora', { body: { policy_id: ofPrincipal.id } });
    const source = async (fields: Json) => {
      const { id } = await api.issue(fields);
      const reported = async () => {
        const { body } = await api.call('GET', `/keys/${id}/usage`);
        return [body.policy_id, body.source];
      };
      const before = await reported();
      // A revoked key reports the same.
      await api.call('DELETE', `/keys/${id}`);
      expect(await reported()).toEqual(before);
      return before;
    };
    expect(await source({ policy_id: own.id, principal_id: 'dora' })).toEqual([own.id, 'key']);
    expect(await source({ principal_id: 'dora', kind: 'user' })).toEqual([ofPrincipal.id, 'principal']);
    expect(await source({ principal_id: 'erin', kind: 'user' })).toEqual([forUsers.id, 'default']);
    expect((await source({ principal_id: 'erin' }))[1]).toBe('default');
  });

  it('exists for every key when issuing and deletion are concurrent', async () => {
    for (let round = 0; round < 10; round++) {
      const policy = await create();
      const [issued, deleted] = await Promise.all([
        api.call('POST', '/keys', { body: { name: 'race', policy_id: policy.id } }),
        api.call('DELETE', `/policies/${policy.id}`),
      ]);
      expect([issued.status, deleted.status]).toEqual(issued.status === 201 ? [201, 409] : [422, 200]);
    }
  });
});

describe('a changed policy', () => {
  it('keeps its spend when the limit changes, and starts a counter from the ledger when the window or scope changes', async () => {
    const policy = await create({ limit_micro_usd: 100, window: 'day' });
    const { id: keyId } = await api.issue({ policy_id: policy.id, principal_id: 'frank' });
    const usage = async () => (await api.call('GET', `/keys/${keyId}/usage`)).body;
    const today = new Date(`${api.now.toISOString().slice(0, 10)}T00:00:00Z`);
    const spend = (at: Date, costMicroUsd: number) =>
      recordAttempts(api.db, [
        {
          key: keyId,
          principal: 'frank',
          costNano: BigInt(costMicroUsd) * 1_000n,
          admittedAt: at,
          buckets: [
            {
              policyId: policy.id,
              counterVersion: 1,
              subject: 'principal:frank',
              windowStartMs: BigInt(Date.parse(at.toISOString().slice(0, 10))),
            },
          ],
        },
      ]);
    await spend(new Date(today.getTime() - 48 * 3_600_000), 7);
    await spend(new Date(today.getTime() + 60_000), 30);
    expect(await usage()).toMatchObject({ bucket_spent_micro_usd: 30, remaining_micro_usd: 70 });
    await patch(policy.id, { limit_micro_usd: 20 });
    expect(await usage()).toMatchObject({ bucket_spent_micro_usd: 30, remaining_micro_usd: 0 });
    await patch(policy.id, { counter_scope: 'key', limit_micro_usd: 1_000 });
    expect(await usage()).toMatchObject({
      counter_scope: 'key',
      bucket_spent_micro_usd: 30,
      principal_spent_micro_usd: 30,
    });
    await patch(policy.id, { window: 'month' });
    expect(await usage()).toMatchObject({ bucket_spent_micro_usd: 37, remaining_micro_usd: 963 });
    await patch(policy.id, { window: 'none', counter_scope: 'policy' });
    expect(await usage()).toMatchObject({ bucket_spent_micro_usd: 37, pooled: true, window_unbounded: true });
  });

  it('grants leases by its new limit from then on, and revokes none', async () => {
    const { id } = await create({ limit_micro_usd: 100, window: 'none', counter_scope: 'policy' });
    const holder = { producerId: randomUUID(), epoch: randomUUID() };
    await registerProducer(api.db, { ...holder, name: '', now: api.now });
    const bucket = { policyId: id, counterVersion: 1, subject: POLICY_SUBJECT, windowStartMs: 0n };
    const call = { bucket, seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: 80_000n, minimumNanoUsd: 0n };
    await answerLeaseCalls(api.db, { ...holder, calls: [call], now: api.now });
    await patch(id, { limit_micro_usd: 50 });
    const row = await api.db
      .selectFrom('spend_buckets')
      .select(['limit_nano_usd', 'leased_nano_usd'])
      .where('policy_id', '=', id)
      .executeTakeFirst();
    expect(row).toEqual({ limit_nano_usd: 50_000n, leased_nano_usd: 80_000n });
    const [result] = await answerLeaseCalls(api.db, {
      ...holder,
      calls: [{ ...call, seq: 2n }],
      now: api.now,
    });
    expect(result).toMatchObject({ grantedNanoUsd: 80_000n, outcome: 'contended' });
  });
});

describe('every mutation', () => {
  it('adds one audit row and raises the revision by one, unless it is rejected', async () => {
    const revision = async () =>
      (await api.db.selectFrom('revision').select('revision').executeTakeFirstOrThrow()).revision;
    const rows = async () => ((await api.call('GET', '/audit?page_size=500')).body.data as Json[]).length;
    const [revisionBefore, rowsBefore] = [await revision(), await rows()];
    const policy = await create();
    await patch(policy.id, { name: 'q' });
    await patch(policy.id, {});
    await patch(policy.id, { timezone: 'Nowhere/At-All' });
    await api.call('DELETE', `/policies/${policy.id}`);
    expect([(await revision()) - revisionBefore, (await rows()) - rowsBefore]).toEqual([3n, 3]);
    const { body } = await api.call('GET', `/audit?resource_id=${policy.id}`);
    expect(
      (body.data as Json[]).map(({ action, actor_principal_id }) => [action, actor_principal_id]),
    ).toEqual([
      ['policy.deleted', 'operator'],
      ['policy.updated', 'operator'],
      ['policy.created', 'operator'],
    ]);
  });
});
