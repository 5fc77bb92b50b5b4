import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { newCompany, type Person } from './company.ts';
import type { HostileCase } from './hostileCase.ts';
import { operate } from './product.ts';
import type { Scene } from './scene.ts';

type Json = Record<string, unknown>;
const ROW = 'other limits for a while';

export const OVERRIDES: readonly HostileCase[] = [
  { row: ROW, title: 'only operators give, change and end overrides, and never their own', run: lifting },
  { row: ROW, title: 'show nothing of another team or tenant, by any read or filter', run: reading },
  { row: ROW, title: 'name one counter that there is, and an end within bounds', run: counters },
];

const refusalOf = ({ status, body }: { readonly status: number; readonly body: Json }) =>
  `${status} ${(body.error as Json | undefined)?.code}`;

/** A limit for each principal, and an override of it for a person. */
async function overridden({ product }: Scene, { principal }: Person, name: string) {
  const body = { name, counter_scope: 'principal', limit_micro_usd: 1_000 };
  const policyId = String((await operate(product, 'POST', '/api/v1/policies', body)).id);
  const of = { policy_id: policyId, principal_id: principal, limit_micro_usd: 2_000, reason: `for ${name}` };
  const made = await operate(product, 'POST', '/api/v1/overrides', { ...of, duration_seconds: 3_600 });
  return { policyId, path: `/api/v1/overrides/${String(made.id)}` };
}

async function lifting(scene: Scene): Promise<void> {
  const { product } = scene;
  const { member, lead, otherLead, finance, auditor, victim, canary } = await newCompany(scene);
  const { policyId, path } = await overridden(scene, member, `raised ${canary}`);
  const before = (await manage(product, 'GET', path)).body;
  for (const person of [member, lead, otherLead, finance, auditor, victim]) {
    const { key, principal } = person;
    const own = {
      policy_id: policyId,
      principal_id: principal,
      limit_micro_usd: 1e9,
      reason: 'more',
      duration_seconds: 60,
    };
    const calls = [
      { method: 'POST', path: '/api/v1/overrides', body: own },
      { method: 'POST', path: '/api/v1/overrides', body: { ...own, principal_id: member.principal } },
      { method: 'PATCH', path, body: { limit_micro_usd: 1e9 } },
      { method: 'DELETE', path },
    ];
    for (const { method, path: at, body } of calls) {
      const answer = await manage(product, method, at, { key, ...(body && { body }) });
      expect([403, 404], `${principal} ${method}: ${refusalOf(answer)}`).toContain(answer.status);
    }
    const plan = await manage(product, 'POST', '/api/v1/apply', { key, body: { calls } });
    expect(plan.status).toBe(403);
  }
  // An operator asks another one for itself, by whichever key.
  await operate(product, 'PUT', `/api/v1/principals/chief-${canary}`, { role: 'operator' });
  const issued = await operate(product, 'POST', '/api/v1/keys', {
    name: 'chief',
    principal_id: `chief-${canary}`,
    scopes: ['operator', 'keys:write'],
  });
  const key = String(issued.key);
  const of = { limit_micro_usd: 1e9, reason: 'more', duration_seconds: 60 };
  const ofOwn = { ...of, policy_id: policyId, principal_id: `chief-${canary}` };
  expect(refusalOf(await manage(product, 'POST', '/api/v1/overrides', { key, body: ofOwn }))).toBe(
    '403 own_override',
  );
  const ofKeys = { name: `keys ${canary}`, counter_scope: 'key', limit_micro_usd: 1_000 };
  const { id } = await operate(product, 'POST', '/api/v1/policies', ofKeys);
  const ofKey = { ...of, policy_id: id, key_id: issued.id };
  expect(refusalOf(await manage(product, 'POST', '/api/v1/overrides', { key, body: ofKey }))).toBe(
    '403 own_override',
  );
  expect((await manage(product, 'GET', path)).body).toEqual(before);
}

async function reading(scene: Scene): Promise<void> {
  const { product } = scene;
  const company = await newCompany(scene);
  const { member, colleague, lead, otherLead, finance, auditor, victim, canary } = company;
  const { policyId, path } = await overridden(scene, victim, `secret ${canary}`);
  const mine = await overridden(scene, member, `of ${member.principal}`);
  for (const { key, principal } of [member, colleague, lead]) {
    const queries = ['', `?policy_id=${policyId}`, '?active=true&page_size=500'];
    if (principal === lead.principal) queries.push(`?principal_id=${victim.principal}`);
    for (const query of queries) {
      const { status, body } = await manage(product, 'GET', `/api/v1/overrides${query}`, { key });
      expect(status).toBe(200);
      expect(JSON.stringify(body)).not.toContain(canary);
    }
    const unknown = await manage(product, 'GET', '/api/v1/overrides/ovr_01kafyq2s0e5fvf6m8x4n9r7td', { key });
    const theirs = await manage(product, 'GET', path, { key });
    expect([theirs.status, (theirs.body.error as Json).message]).toEqual([
      404,
      (unknown.body.error as Json).message,
    ]);
  }
  for (const { key } of [otherLead, finance, auditor, victim]) {
    expect((await manage(product, 'GET', path, { key })).status).toBe(200);
  }
  expect((await manage(product, 'GET', mine.path, { key: lead.key })).status).toBe(200);
  expect((await manage(product, 'GET', mine.path, { key: colleague.key })).status).toBe(404);
}

async function counters(scene: Scene): Promise<void> {
  const { product } = scene;
  const { member, canary } = await newCompany(scene);
  const { policyId } = await overridden(scene, member, `counted ${canary}`);
  const other = { limit_micro_usd: 1, reason: 'x', duration_seconds: 60 };
  const of = { ...other, policy_id: policyId, principal_id: member.principal };
  const { duration_seconds: _, ...endless } = of;
  const refused = async (body: Json) =>
    refusalOf(await manage(product, 'POST', '/api/v1/overrides', { body }));
  expect(await refused(of)).toBe('409 override_exists');
  expect(await refused({ ...of, principal_id: `nobody-${canary}` })).toBe('422 principal_not_found');
  expect(await refused({ ...other, policy_id: policyId, key_id: member.keyId })).toBe('422 counter_mismatch');
  expect(await refused({ ...other, policy_id: policyId })).toBe('422 counter_mismatch');
  expect(await refused({ ...of, policy_id: 'pol_x' })).toBe('422 policy_not_found');
  expect(await refused(endless)).toBe('400 invalid_request');
  expect(await refused({ ...of, ends_at: '2999-01-01T00:00:00Z' })).toBe('400 invalid_request');
  expect(await refused({ ...endless, ends_at: '2999-01-01T00:00:00Z' })).toBe('422 ends_at_too_late');
  expect(await refused({ ...endless, ends_at: '2001-01-01T00:00:00Z' })).toBe('422 ends_at_in_past');
  expect(await refused({ ...of, reason: '   ' })).toBe('422 reason_invalid');
  for (const limit_micro_usd of [null, -1, 0.5, 1e16, '5']) {
    expect(await refused({ ...of, limit_micro_usd })).toBe('400 invalid_request');
  }
  // Several at once: one is in force.
  const pooled = { name: `pooled ${canary}`, counter_scope: 'policy', limit_micro_usd: 1_000 };
  const { id } = await operate(product, 'POST', '/api/v1/policies', pooled);
  const results = await Promise.all(
    Array.from({ length: 4 }, () =>
      manage(product, 'POST', '/api/v1/overrides', { body: { ...other, policy_id: id } }),
    ),
  );
  expect(results.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
}
