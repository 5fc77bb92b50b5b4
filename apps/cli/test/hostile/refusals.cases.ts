import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { chat, type HostileCase } from './hostileCase.ts';
import type { Scene, Tenant } from './scene.ts';

/** A tenant sends requests that are refused: they do not fill the database, and no other tenant reads them. */

type Json = Record<string, unknown>;
const ROW = 'refused requests';
const ROWS_PER_MINUTE = 100;

async function refusedOf({ product }: Scene, { key }: Tenant, query = ''): Promise<Json[]> {
  const path = `/api/v1/requests?outcome=refused&page_size=500${query}`;
  const { status, body } = await manage(product, 'GET', path, { key });
  expect(status).toBe(200);
  return body.data as Json[];
}

const refusal = (row: Json) => row.refusal as Json;
/** The longest text of each kind that comes through as a header. */
const odd = (n: number) => ({
  'x-svc-user': Buffer.from(`\u{1F4A5}'"\u202e<b>${n}`).toString('latin1'),
  'x-svc-team': 'x'.repeat(4_000),
  'x-svc-session-id': `s${n}`.repeat(500),
  'x-svc-labels': `__proto__=1,constructor=2,${Array.from({ length: 40 }, (_, at) => `l${n}-${at}=${'y'.repeat(100)}`)}`,
});

export const REFUSALS: readonly HostileCase[] = [
  {
    row: ROW,
    title: 'of a flood with odd names and labels have a hundred rows a minute, and all are counted',
    async run(scene) {
      const [flooder, other] = [await scene.tenant(), await scene.tenant()];
      const requests = 600;
      for (let at = 0; at < requests; at += 50) {
        const answers = Array.from({ length: 50 }, (_, n) =>
          flooder.ask('/v1/chat/completions', chat(`none/\u202e\\u0000"${at + n}${'z'.repeat(2_000)}`), {
            headers: odd(at + n),
          }),
        );
        for (const { status } of await Promise.all(answers)) expect([400, 404]).toContain(status);
      }
      await other.ask('/v1/chat/completions', chat('none/such'));
      // Nobody waits behind the flood.
      await eventually(async () => expect(await refusedOf(scene, other)).toHaveLength(1));
      await eventually(async () => {
        const rows = await refusedOf(scene, flooder);
        const counted = rows.reduce((sum, row) => sum + Number(refusal(row).count), 0);
        expect(counted).toBe(requests);
      });
      const rows = await refusedOf(scene, flooder);
      const minuteOf = ({ admitted_at }: Json) => String(admitted_at).slice(0, 16);
      for (const minute of new Set(rows.map(minuteOf))) {
        const ofMinute = rows.filter((row) => minuteOf(row) === minute);
        expect(ofMinute.filter((row) => row.request_id !== '').length).toBeLessThanOrEqual(ROWS_PER_MINUTE);
        expect(ofMinute.filter((row) => row.request_id === '').length).toBeLessThanOrEqual(1);
      }
      for (const row of rows) {
        expect(row).toMatchObject({
          outcome: 'refused',
          cost_micro_usd: 0,
          attempts: [],
          principal_id: flooder.mark,
        });
        expect(JSON.stringify(row).length).toBeLessThan(8_000);
      }
      expect(flooder.billed()).toBe(0);
    },
  },
  {
    row: ROW,
    title: "are their own principal's alone, and say nothing of a parent's spend",
    async run(scene) {
      const parent = await manage(scene.product, 'POST', '/api/v1/policies', {
        body: { name: 'small parent', window: 'month', counter_scope: 'policy', limit_micro_usd: 1 },
      });
      const [mine, other] = [
        await scene.tenant({ limit_micro_usd: 1_000_000, parent_policy_id: parent.body.id }),
        await scene.tenant(),
      ];
      expect((await mine.ask('/v1/chat/completions', chat('openai/plain'))).code).toBe('budget_exhausted');
      const [row] = await eventually(async () => {
        const rows = await refusedOf(scene, mine);
        expect(rows).toHaveLength(1);
        return rows;
      });
      expect(row && refusal(row)).toMatchObject({
        code: 'budget_exhausted',
        policy_id: null,
        counter: { limits: 'budget', limit_micro_usd: null, spent_micro_usd: null, estimate_micro_usd: null },
      });
      const path = `/api/v1/requests/${String(row?.request_id)}`;
      const shown = await manage(scene.product, 'GET', path);
      expect((shown.body.refusal as Json).counter).toMatchObject({ limit_micro_usd: 1, spent_micro_usd: 0 });
      expect((await manage(scene.product, 'GET', path, { key: mine.key })).status).toBe(200);
      expect((await manage(scene.product, 'GET', path, { key: other.key })).status).toBe(404);
      expect(await refusedOf(scene, other)).toEqual([]);
      expect(await refusedOf(scene, other, `&request_id=${String(row?.request_id)}`)).toEqual([]);
      const asked = await manage(scene.product, 'GET', `/api/v1/requests?principal_id=${mine.mark}`, {
        key: other.key,
      });
      expect(asked.status).toBe(403);
    },
  },
  {
    row: ROW,
    title: 'without a known key leave no row',
    async run(scene) {
      const tenant = await scene.tenant();
      const { keyId } = tenant;
      await manage(scene.product, 'PATCH', `/api/v1/keys/${keyId}`, { body: { disabled: true } });
      await eventually(async () =>
        expect((await tenant.ask('/v1/chat/completions', chat('none/such'))).code).toBe('key_disabled'),
      );
      const { body } = await manage(scene.product, 'GET', `/api/v1/requests?key_id=${keyId}`);
      expect((body.data as Json[]).filter((row) => refusal(row)?.code === 'key_disabled')).toEqual([]);
    },
  },
];
