import { newId } from '@weighbridge/domain';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { recordAttempts, type Used } from '../../../test/usage.ts';
import { submitFeedback } from '../feedback/feedback.service.ts';
import { currentStrata } from './evidence.service.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ OPENAI_API_KEY: 'sk-vendor' });
});
afterAll(() => api.close());
beforeEach(async () => {
  await api.db.deleteFrom('evidence_types').execute();
  await api.db.deleteFrom('feedback').execute();
});

const deps = () => ({ db: api.db, now: () => api.now });
const many = (count: number, used: Used): Used[] => Array.from({ length: count }, () => ({ ...used }));
const evidence = async (query = '') => {
  const { body } = await api.call('GET', `/evidence${query}`);
  return body as { data: Json[]; next_page_token: string };
};
const feedback = (requestId: string, score: number, more: { principalId?: string; comment?: string } = {}) =>
  submitFeedback(deps(), {
    $typeName: 'weighbridge.v1.RecordFeedbackRequest',
    requestId,
    principalId: 'ada',
    keyId: 'key_1',
    score,
    ...more,
  });

describe('the list of evidence', () => {
  it('shows the evidence on each model at each workload type', async () => {
    const [first = ''] = await recordAttempts(api.db, [
      ...many(1, { workloadType: 'summaries', model: 'acme/small', costNano: 2_500n }),
      ...many(1, { workloadType: 'summaries', model: 'acme/small', outcome: 'upstream_error', costNano: 0n }),
      ...many(1, { model: 'acme/large' }),
    ]);
    await feedback(first, 0.75);
    expect((await evidence()).data).toEqual([
      expect.objectContaining({
        workload_type: '',
        workload_type_key: '',
        model: 'acme/large',
        success_rate: 1,
      }),
      {
        workload_type: 'summaries',
        workload_type_key: expect.stringMatching(/^[0-9a-f]{16}$/),
        model: 'acme/small',
        requests: expect.closeTo(2, 2),
        success_rate: 0.5,
        mean_latency_ms: 1_500,
        mean_time_to_first_token_ms: 1.2,
        mean_cost_micro_usd: 2.5,
        mean_score: 0.75,
        scores: expect.closeTo(1, 2),
        updated_at: expect.any(String),
        probability: null,
        why: expect.stringContaining('50.0 % of 2.0 requests succeeded'),
      },
    ]);
  });

  it('filters by workload type and model, and has pages', async () => {
    await recordAttempts(
      api.db,
      ['a', 'b', 'c'].flatMap((workloadType) =>
        ['acme/1', 'acme/2'].map((model) => ({ workloadType, model })),
      ),
    );
    await recordAttempts(api.db, [{ model: 'acme/1' }]);
    expect((await evidence('?workload_type=b')).data).toMatchObject([
      { workload_type: 'b', model: 'acme/1' },
      { workload_type: 'b', model: 'acme/2' },
    ]);
    expect((await evidence('?workload_type=&model=acme/1')).data).toMatchObject([{ workload_type: '' }]);
    expect((await evidence('?workload_type=d')).data).toEqual([]);
    const all = (await evidence()).data;
    expect(all).toHaveLength(7);
    const paged: Json[] = [];
    for (let token = ''; ; ) {
      const page = await evidence(`?page_size=3&page_token=${token}`);
      paged.push(...page.data);
      token = page.next_page_token;
      if (token === '') break;
    }
    expect(paged).toEqual(all);
    expect(await outcome(api.call('GET', '/evidence?page_token=x'))).toEqual([400, 'invalid_page_token']);
  });

  it('shows how often each target of a profile is tried first, with or without evidence', async () => {
    const { body } = await api.call('POST', '/profiles', {
      body: {
        name: 'best',
        strategy: 'adaptive',
        targets: [{ model: 'openai/gpt-4o' }, { model: 'openai/gpt-4o-mini' }],
      },
    });
    await recordAttempts(api.db, [
      ...many(60, { workloadType: 'chat', model: 'openai/gpt-4o' }),
      ...many(60, { workloadType: 'chat', model: 'openai/gpt-4o-mini', outcome: 'upstream_error' }),
      { workloadType: 'chat', model: 'acme/other' },
    ]);
    const { data } = await evidence(`?profile_id=${String(body.id)}`);
    expect(data.map(({ workload_type, model }) => [workload_type, model])).toEqual([
      ['', 'openai/gpt-4o'],
      ['', 'openai/gpt-4o-mini'],
      ['chat', 'openai/gpt-4o'],
      ['chat', 'openai/gpt-4o-mini'],
    ]);
    const [one, other, good, bad] = data.map(({ probability }) => probability as number);
    expect((one ?? 0) + (other ?? 0)).toBeCloseTo(1);
    expect(one).toBeGreaterThan(0.3);
    expect(good).toBeGreaterThan(0.9);
    expect(bad).toBeLessThan(0.1);
    expect(data[0]).toMatchObject({ requests: 0, success_rate: null, why: 'no evidence yet' });
    // The same evidence gives the same probabilities.
    expect(
      (await evidence(`?profile_id=${String(body.id)}`)).data.map(({ probability }) => probability),
    ).toEqual(data.map(({ probability }) => probability));
    expect(await outcome(api.call('GET', '/evidence?profile_id=prf_none'))).toEqual([
      422,
      'profile_not_found',
    ]);
  });

  it('is what explain uses', async () => {
    await recordAttempts(api.db, many(3, { workloadType: 'chat', model: 'acme/small' }));
    const strata = await currentStrata(deps());
    expect(strata('*', 'acme/small')?.requests).toBeCloseTo(3, 1);
  });
});

describe('feedback', () => {
  const shown = async (id: string, key?: string) =>
    (await api.call('GET', `/requests/${id}`, key === undefined ? {} : { key })).body.feedback;

  it('is shown with its request; the comment only to operators, and never logged', async () => {
    const [id = ''] = await recordAttempts(api.db, [{ principal: 'grace' }]);
    expect(await shown(id)).toBeNull();
    expect(await feedback(id, 0.25, { principalId: 'grace', comment: 'not a word of it' })).toBe('counted');
    const given_at = api.now.toISOString();
    expect(await shown(id)).toEqual({ score: 0.25, comment: 'not a word of it', given_at });
    const { key } = await api.issue({ principal_id: 'grace', scopes: ['usage:read'] });
    expect(await shown(id, key)).toEqual({ score: 0.25, comment: null, given_at });
    const list = await api.call('GET', `/requests?request_id=${id}`, { key });
    expect((list.body.data as Json[])[0]?.feedback).toEqual({ score: 0.25, comment: null, given_at });
    expect(api.log()).not.toContain('not a word of it');
  });

  it('waits only for a recent request', async () => {
    const fresh = newId('req');
    const before = api.now;
    api.now = new Date();
    expect(await feedback(fresh, 1)).toBe('pending');
    api.now = new Date(Date.now() + 11 * 60_000);
    expect(await feedback(newId('req'), 1)).toBe('unknown');
    api.now = new Date(Date.now() - 11 * 60_000);
    expect(await feedback(newId('req'), 1)).toBe('unknown');
    api.now = before;
    for (const id of ['', 'req_', 'req_none', newId('key'), 'resp_1'])
      expect(await feedback(id, 1)).toBe('unknown');
  });

  it('rejects an invalid score or comment', async () => {
    for (const score of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      await expect(feedback(newId('req'), score)).rejects.toThrow('score');
    }
    await expect(feedback(newId('req'), 1, { comment: 'x'.repeat(1_001) })).rejects.toThrow('comment');
  });
});
