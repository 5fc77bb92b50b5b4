import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { newCompany } from './company.ts';
import { chat, type HostileCase, hard, PLENTY } from './hostileCase.ts';
import { operate } from './product.ts';
import type { Scene } from './scene.ts';

type Json = Record<string, unknown>;
const ROW = 'another policy once a budget is used up';

export const ON_EXHAUSTED: readonly HostileCase[] = [
  { row: ROW, title: 'only operators name it, and nothing tells of it before', run: naming },
  {
    row: ROW,
    title: 'names a policy and a profile that there are, and no circle, also at once',
    run: circles,
  },
  { row: ROW, title: 'parents bind a flood under it, and each counter pays what it governed', run: flood },
];

const refusalOf = ({ status, body }: { readonly status: number; readonly body: Json }) =>
  `${status} ${(body.error as Json | undefined)?.code}`;

let made = 0;
/** A profile with one target, and a policy that may follow another. */
async function replacement({ product }: Scene, fields: Json = {}) {
  const n = ++made;
  const settings = { name: `after-${n}`, strategy: 'ordered', targets: [{ model: 'local/plain' }] };
  const profile = await operate(product, 'POST', '/api/v1/profiles', settings);
  const policy = await operate(product, 'POST', '/api/v1/policies', { name: `after ${n}`, ...fields });
  return { profile_id: String(profile.id), policy_id: String(policy.id) };
}

async function naming(scene: Scene): Promise<void> {
  const { product } = scene;
  const { member, lead, otherLead, finance, auditor, victim, canary } = await newCompany(scene);
  const on_exhausted = await replacement(scene, { name: `after ${canary}` });
  const path = `/api/v1/policies/${victim.policyId}`;
  await operate(product, 'PATCH', path, { on_exhausted });
  const own = await operate(product, 'POST', '/api/v1/policies', {
    name: `own of ${member.principal}`,
    on_exhausted,
  });
  await operate(product, 'PATCH', `/api/v1/keys/${member.keyId}`, { policy_id: own.id });
  const before = (await manage(product, 'GET', path)).body;
  for (const { key, principal } of [member, lead, otherLead, finance, auditor, victim]) {
    const calls = [
      { method: 'POST', path: '/api/v1/policies', body: { name: 'more', on_exhausted } },
      { method: 'PATCH', path, body: { on_exhausted: null } },
      { method: 'PATCH', path: `/api/v1/policies/${own.id}`, body: { on_exhausted } },
      {
        method: 'PATCH',
        path: `/api/v1/policies/${on_exhausted.policy_id}`,
        body: { limit_micro_usd: null },
      },
      { method: 'DELETE', path: `/api/v1/policies/${on_exhausted.policy_id}` },
    ] as const;
    for (const call of calls) {
      const answer = await manage(product, call.method, call.path, {
        key,
        ...('body' in call && { body: call.body }),
      });
      expect(answer.status, `${principal} ${call.method} ${call.path}: ${refusalOf(answer)}`).toBe(403);
    }
    expect((await manage(product, 'POST', '/api/v1/apply', { key, body: { calls } })).status).toBe(403);
  }
  expect((await manage(product, 'GET', path)).body).toEqual(before);
  for (const read of ['/api/v1/whoami', '/api/v1/usage', '/api/v1/summary', `/api/v1/keys/${member.keyId}`]) {
    const { status, body } = await manage(product, 'GET', read, { key: member.key });
    expect([read, status]).toEqual([read, 200]);
    const text = JSON.stringify(body);
    for (const hidden of [canary, ...Object.values(on_exhausted)]) expect(text, read).not.toContain(hidden);
  }
}

async function circles(scene: Scene): Promise<void> {
  const { product } = scene;
  const { profile_id, policy_id } = await replacement(scene);
  const create = async (fields: Json = {}) =>
    String((await operate(product, 'POST', '/api/v1/policies', { name: 'circle', ...fields })).id);
  const replace = async (id: string, by: string, profile = profile_id) =>
    refusalOf(
      await manage(product, 'PATCH', `/api/v1/policies/${id}`, {
        body: { on_exhausted: { profile_id: profile, policy_id: by } },
      }),
    );
  for (let round = 0; round < 5; round++) {
    const [a, b] = [await create(), await create()];
    expect(await replace(a, a)).toBe('422 policy_cycle');
    const both = await Promise.all([replace(a, b), replace(b, a)]);
    expect(both.sort()).toEqual(['200 undefined', '422 policy_cycle']);
    // Through a parent, at once.
    const [c, d] = [await create(), await create()];
    const under = manage(product, 'PATCH', `/api/v1/policies/${c}`, { body: { parent_policy_id: d } });
    const mixed = await Promise.all([replace(d, c), under.then(refusalOf)]);
    expect(mixed.sort()).toEqual(['200 undefined', '422 policy_cycle']);
  }
  const id = await create();
  const deleted = await create();
  await operate(product, 'DELETE', `/api/v1/policies/${deleted}`);
  const key = await operate(product, 'POST', '/api/v1/keys', { name: 'none', policy_id });
  for (const by of [deleted, String(key.id), profile_id, '', '../policies', '\u0000'.repeat(3)]) {
    expect(await replace(id, by), by).toMatch(/^4(00 invalid_request|22 policy_not_found)$/);
    expect(await replace(id, policy_id, by === profile_id ? policy_id : by), by).toMatch(
      /^4(00 invalid_request|22 profile_not_found)$/,
    );
  }
  for (const on_exhausted of ['refuse', [], 0, {}, { profile_id }, { profile_id, policy_id, limit: 1 }]) {
    const answer = await manage(product, 'PATCH', `/api/v1/policies/${id}`, { body: { on_exhausted } });
    expect(refusalOf(answer)).toBe('400 invalid_request');
  }
  // It is not deleted under a flood of changes that name it.
  const target = await create();
  const results = await Promise.all([
    replace(id, target),
    manage(product, 'DELETE', `/api/v1/policies/${target}`).then(refusalOf),
  ]);
  expect([
    ['200 undefined', '409 policy_in_use'],
    ['422 policy_not_found', '200 undefined'],
  ]).toContainEqual(results);
}

/** Each answer costs 20,000 micro-USD and a few more; at the dearest conditions, which are reserved, six times as much. */
const ANSWER = { max_tokens: 5_000 };
const SCRIPT = { 'output-tokens': '5000' };

async function flood(scene: Scene): Promise<void> {
  const { product } = scene;
  const pooled = { counter_scope: 'policy' };
  const above = await operate(product, 'POST', '/api/v1/policies', {
    name: 'above',
    ...pooled,
    ...hard(900_000),
  });
  const on_exhausted = await replacement(scene, { ...pooled, ...hard(PLENTY) });
  const tried = await scene.tenant({ parent_policy_id: above.id, on_exhausted, ...hard(300_000) });
  const ask = async () =>
    await tried.ask('/v1/chat/completions', chat('openai/plain', ANSWER), {
      script: SCRIPT,
      // What a caller asks for changes nothing.
      headers: { 'x-svc-policy': on_exhausted.policy_id, 'x-svc-profile': 'none' },
    });
  const answers: Awaited<ReturnType<typeof ask>>[] = [];
  while (answers.at(-1)?.code !== 'budget_exhausted' && answers.length < 400) {
    answers.push(...(await Promise.all(Array.from({ length: 12 }, ask))));
  }
  const served = answers.filter(({ status }) => status === 200);
  for (const { status, code } of answers) {
    if (status === 429) expect(['budget_exhausted', 'budget_contended']).toContain(code);
    else expect(status).toBe(200);
  }
  expect(answers.at(-1)).toMatchObject({ status: 429, code: 'budget_exhausted' });
  expect(tried.billed()).toBeLessThanOrEqual(900_000);
  expect(await tried.charged(served.length)).toBe(tried.billed());
  const { data } = await operate(product, 'GET', `/api/v1/spend?key_id=${tried.keyId}&group_by=policy,model`);
  const spent = new Map(
    (data as { group: Json; cost_micro_usd: number }[])
      .filter((row) => row.cost_micro_usd > 0)
      .map(({ group, cost_micro_usd }) => [`${group.policy} ${group.model}`, cost_micro_usd]),
  );
  const [own, after] = [`${tried.policyId} openai/plain`, `${on_exhausted.policy_id} local/plain`];
  expect([...spent.keys()].sort()).toEqual([own, after].sort());
  expect(spent.get(own)).toBeLessThanOrEqual(300_000);
}
