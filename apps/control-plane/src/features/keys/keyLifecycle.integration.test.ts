import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const later = (ms: number) => {
  api.now = new Date(api.now.getTime() + ms);
};

describe('revoking a key', () => {
  it('is permanent: the key is rejected, cannot be changed, and revoking it again changes nothing', async () => {
    const { id, key } = await api.issue();
    later(1_000);
    const revoked = await api.call('DELETE', `/keys/${id}`);
    expect(revoked).toMatchObject({
      status: 200,
      body: { id, disabled: true, revoked_at: api.now.toISOString() },
    });
    const refused = await api.call('GET', '/usage', { key });
    const message = expect.stringContaining('a key that is revoked cannot be enabled again');
    expect(refused).toMatchObject({ status: 401, body: { error: { code: 'key_disabled', message } } });
    later(1_000);
    expect((await api.call('DELETE', `/keys/${id}`)).body).toEqual(revoked.body);
    expect((await api.call('GET', `/keys/${id}`)).body).toEqual(revoked.body);
    for (const body of [{}, { disabled: false }, { name: 'x' }]) {
      expect(await outcome(api.call('PATCH', `/keys/${id}`, { body }))).toEqual([409, 'key_revoked']);
    }
    expect(await outcome(api.call('POST', `/keys/${id}/rotate`))).toEqual([409, 'key_revoked']);
  });
});

describe('rotating a key', () => {
  it('keeps the id, and the old secret works only for the grace period', async () => {
    const issued = await api.issue();
    const { status, body } = await api.call('POST', `/keys/${issued.id}/rotate`, {
      body: { grace_seconds: 60 },
    });
    expect([status, body.id]).toEqual([200, issued.id]);
    expect(body.key_hint).not.toBe(issued.key_hint);
    const works = async (key: unknown) =>
      (await api.call('GET', '/usage', { key: String(key) })).status === 200;
    expect([await works(issued.key), await works(body.key)]).toEqual([true, true]);
    // Whoever looks at the key sees until when.
    const graceEnds = async () => {
      const { body: shown } = await api.call('GET', `/keys/${issued.id}`);
      const { body: list } = await api.call('GET', '/keys?page_size=500');
      const listed = (list.data as { id: string; grace_ends_at: unknown }[]).find(
        ({ id }) => id === issued.id,
      );
      const { body: changed } = await api.call('PATCH', `/keys/${issued.id}`, { body: {} });
      return [shown, listed, changed].map((key) => key?.grace_ends_at);
    };
    const endsAt = new Date(api.now.getTime() + 60_000).toISOString();
    expect([body.grace_ends_at, issued.grace_ends_at]).toEqual([endsAt, null]);
    expect(await graceEnds()).toEqual([endsAt, endsAt, endsAt]);
    later(60_000);
    expect([await works(issued.key), await works(body.key)]).toEqual([false, true]);
    expect(await graceEnds()).toEqual([null, null, null]);
    const { body: again } = await api.call('POST', `/keys/${issued.id}/rotate`);
    expect([await works(body.key), await works(again.key)]).toEqual([false, true]);
  });

  it('gives no caller a secret of a key that it could not create', async () => {
    const strong = await api.issue({ principal_id: 'ada' });
    const weak = await api.issue({ principal_id: 'ada', scopes: ['keys:write'] });
    const brief = await api.issue({
      principal_id: 'ada',
      expires_at: new Date(api.now.getTime() + 60_000).toISOString(),
    });
    const rotate = (id: string, key: string) => outcome(api.call('POST', `/keys/${id}/rotate`, { key }));
    expect(await rotate(strong.id, weak.key)).toEqual([403, 'scope_escalation']);
    expect(await rotate(strong.id, brief.key)).toEqual([403, 'expiry_too_late']);
    expect(await rotate(weak.id, strong.key)).toEqual([200, undefined]);
    expect(await rotate(brief.id, brief.key)).toEqual([200, undefined]);
    expect(await rotate(strong.id, strong.key)).toEqual([200, undefined]);
  });

  it.each([{ grace_seconds: -1 }, { grace_seconds: 1.5 }, { grace_seconds: '60' }, { grace: 1 }])(
    'rejects %j',
    async (body) => {
      const { id } = await api.issue();
      expect(await outcome(api.call('POST', `/keys/${id}/rotate`, { body }))).toEqual([
        400,
        'invalid_request',
      ]);
    },
  );
});

describe('creating a key under an Idempotency-Key', () => {
  const create = (idempotencyKey: string, body: Json, key = api.operatorKey) =>
    api.call('POST', '/keys', { body, key, headers: { 'idempotency-key': idempotencyKey } });

  it('repeats the first response, secret included, and issues only one key', async () => {
    const body = { name: 'once', scopes: ['inference'] };
    const responses = await Promise.all(Array.from({ length: 5 }, () => create('same', body)));
    const [first] = responses;
    for (const response of responses) expect(response).toMatchObject({ status: 201, body: first?.body });
    expect(responses.filter(({ headers }) => headers['idempotency-replayed'] === 'true')).toHaveLength(4);
    const { body: list } = await api.call('GET', '/keys?name_contains=once');
    expect(list.data).toHaveLength(1);
    // The order of the fields does not matter.
    expect((await create('same', { scopes: ['inference'], name: 'once' })).body).toEqual(first?.body);
  });

  it('rejects another request with the same one, and separates the callers', async () => {
    await create('mine', { name: 'a' });
    expect(await outcome(create('mine', { name: 'b' }))).toEqual([409, 'idempotency_key_reused']);
    const other = await api.issue();
    expect((await create('mine', { name: 'b' }, other.key)).status).toBe(201);
    expect(await outcome(create('has space', { name: 'b' }))).toEqual([400, 'invalid_request']);
  });

  it('forgets a response after 24 hours, and stores no error', async () => {
    const { body } = await create('day', { name: 'a' });
    later(24 * 60 * 60 * 1_000 + 1);
    expect((await create('day', { name: 'b' })).body.id).not.toBe(body.id);
    expect((await create('bad', { name: '' })).status).toBe(422);
    expect((await create('bad', { name: 'good' })).status).toBe(201);
  });

  it('stores no secret in plain text', async () => {
    const { body } = await create('sealed', { name: 'a' });
    const rows = await api.db.selectFrom('idempotent_answers').selectAll().execute();
    expect(rows.map((row) => row.sealed_answer.toString('latin1')).join()).not.toContain(
      String(body.key).slice(7, 20),
    );
  });
});

describe('listing keys', () => {
  it('filters by every field, and shows other callers only their own keys', async () => {
    const own = await api.issue({ principal_id: 'lister', name: 'Alpha_1', kind: 'user' });
    const soon = new Date(api.now.getTime() + 60_000).toISOString();
    await api.issue({ principal_id: 'lister', name: 'beta', disabled: true, expires_at: soon });
    const names = async (query: string, key?: string) => {
      const { body } = await api.call('GET', `/keys?${query}`, key ? { key } : {});
      return ((body.data ?? []) as { name: string }[]).map(({ name }) => name);
    };
    expect(await names('principal_id=lister')).toEqual(['beta', 'Alpha_1']);
    expect(await names('principal_id=lister&kind=user')).toEqual(['Alpha_1']);
    expect(await names('principal_id=lister&disabled=true')).toEqual(['beta']);
    expect(
      await names(
        `principal_id=lister&expiring_before=${new Date(api.now.getTime() + 61_000).toISOString()}`,
      ),
    ).toEqual(['beta']);
    expect(await names('principal_id=lister&name_contains=ALPHA_')).toEqual(['Alpha_1']);
    expect(await names('principal_id=lister&name_contains=%25')).toEqual([]);
    expect(await names(`principal_id=lister&policy_id=${own.policy_id}`)).toHaveLength(2);
    expect(await names('', own.key)).toEqual(['beta', 'Alpha_1']);
    expect(await outcome(api.call('GET', '/keys?principal_id=bob', { key: own.key }))).toEqual([
      403,
      'principal_not_allowed',
    ]);
    for (const query of ['disabled=1', 'kind=robot', 'expiring_before=soon', 'other=1', 'page_token=x']) {
      expect((await api.call('GET', `/keys?${query}`)).status).toBe(400);
    }
  });

  it('returns each of 20,000 keys once while others are created, and the last page costs as much as the first', async () => {
    const big = await startTestApi();
    await sql`
      INSERT INTO keys (id, name, kind, principal_id, scopes, key_hint, counter_key_id, created_at, updated_at)
      SELECT 'key_' || lpad(n::text, 26, '0'), 'k' || n, 'service', 'operator', '{}', '', 'key_' || lpad(n::text, 26, '0'),
             timestamptz '2026-01-01' + (n / 10) * interval '1 second', now()
      FROM generate_series(1, 20000) AS n`.execute(big.db);
    await sql`ANALYZE keys`.execute(big.db);
    const seen = new Set<string>();
    let [pages, token] = [0, ''];
    do {
      const { body } = await big.call('GET', `/keys?page_size=500&page_token=${token}`);
      for (const { id } of body.data as { id: string }[]) {
        expect(seen.has(id)).toBe(false);
        seen.add(id);
      }
      token = body.next_page_token as string;
      if (++pages % 4 === 0) await big.issue({ name: `new ${pages}` });
    } while (token);
    const old = [...seen].filter((id) => id.startsWith('key_000'));
    expect(old).toHaveLength(20_000);

    const rowsRead = async (after: string) => {
      const { rows } = await sql<{
        'QUERY PLAN': { Plan: { 'Shared Hit Blocks': number; 'Shared Read Blocks': number } }[];
      }>`
        EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
        SELECT * FROM keys WHERE (created_at, id) < (${after}::timestamptz, 'key_z')
        ORDER BY created_at DESC, id DESC LIMIT 501`.execute(big.db);
      const plan = rows[0]?.['QUERY PLAN'][0]?.Plan;
      return (plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0);
    };
    const [first, last] = [await rowsRead('2027-01-01'), await rowsRead('2026-01-01 00:05:00')];
    expect(last).toBeLessThan(first * 2 + 50);
    await big.close();
  });
});
