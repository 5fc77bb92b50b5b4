import { randomUUID } from 'node:crypto';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Caller, type Cluster, startCluster } from './faults/cluster.ts';
import { manage } from './mainJob.ts';

/** A background response that one proxy made, and another is asked to delete. */

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ proxies: 2 });
});
afterAll(() => cluster?.close());

const [MADE_BY, OTHER] = [0, 1];
/** Of `max_output_tokens` and the body, at the prices of mock/echo; the bill: 100 × 1 + 7 × 2. */
const [AT_LEAST_RESERVED, BILL] = [10_000, 114];

async function ask(caller: Caller, proxy: number, method: string, path: string, body?: object) {
  const response = await fetch(`${cluster.proxies[proxy]?.url}/v1/responses${path}`, {
    method,
    headers: {
      authorization: `Bearer ${caller.key}`,
      'content-type': 'application/json',
      'x-mock-input-tokens': '100',
      'x-mock-output-tokens': '7',
      'x-mock-background-ms': '500',
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const json = (await response.json()) as { id?: string; status?: string; error?: { code?: string } };
  return { status: response.status, code: json.error?.code, json, headers: response.headers };
}

async function spent({ keyId }: Caller): Promise<number> {
  const { body } = await manage(cluster, 'GET', `/api/v1/keys/${keyId}/usage`);
  return body.bucket_spent_micro_usd as number;
}

async function corrections({ name }: Caller): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    SELECT count(*)::integer AS count FROM usage_events
    WHERE kind = 'correction' AND principal_id = ${name}`.execute(cluster.db);
  return rows[0]?.count ?? 0;
}

async function made(caller: Caller): Promise<string> {
  const body = { model: 'mock/echo', input: 'weigh', background: true, max_output_tokens: 5_000 };
  const { json } = await ask(caller, MADE_BY, 'POST', '', body);
  expect(json.status).toBe('queued');
  await eventually(async () => expect(await spent(caller)).toBeGreaterThan(AT_LEAST_RESERVED));
  return `/${json.id}`;
}

describe('a background response that another proxy is asked to delete', () => {
  it('is deleted once its own proxy has settled it, and costs what it used, once', async () => {
    const caller = await cluster.caller(`elsewhere-${randomUUID()}`);
    const path = await made(caller);
    const answers = new Set<string>();
    await eventually(
      async () => {
        const { status, code, headers } = await ask(caller, OTHER, 'DELETE', path);
        answers.add(`${status} ${code ?? ''}`);
        if (code === 'response_not_settled') expect(headers.get('retry-after')).toBe('30');
        if (status === 200) return;
        expect(['response_unfinished', 'response_not_settled']).toContain(code);
        throw new Error('not deleted yet');
      },
      { timeoutMs: 60_000, intervalMs: 100 },
    );
    expect([...answers].at(-1)).toBe('200 ');
    expect(await spent(caller)).toBe(BILL);
    expect(await corrections(caller)).toBe(1);
    expect((await ask(caller, MADE_BY, 'GET', path)).status).toBe(404);
  });

  it('is not deleted while its own proxy is away, until that is gone: then it stays charged', async () => {
    const caller = await cluster.caller(`left-${randomUUID()}`);
    const path = await made(caller);
    const reserved = await spent(caller);
    const [maker] = cluster.proxies;
    await maker?.stop('SIGKILL');
    await eventually(async () => {
      const { status, code } = await ask(caller, OTHER, 'DELETE', path);
      expect([status, code]).toEqual([503, 'response_not_settled']);
    });
    expect((await ask(caller, OTHER, 'GET', path)).json.status).toBe('completed');
    // Silent for more than an hour.
    await sql`
      UPDATE producers SET last_seen_at = clock_timestamp() - interval '61 minutes'
      WHERE producer_id = (
        SELECT producer_id FROM stored_responses WHERE response_id = ${path.slice(1)}
      )`.execute(cluster.db);
    expect((await ask(caller, OTHER, 'DELETE', path)).status).toBe(200);
    expect(await spent(caller)).toBe(reserved);
    // If it comes back after all, it finds nothing to settle.
    await maker?.start();
    await eventually(async () => {
      const { rows } = await sql<{ settled_at: Date | null }>`
        SELECT settled_at FROM stored_responses WHERE response_id = ${path.slice(1)}`.execute(cluster.db);
      expect(rows[0]?.settled_at).not.toBeNull();
    });
    expect([await spent(caller), await corrections(caller)]).toEqual([reserved, 0]);
  });
});
