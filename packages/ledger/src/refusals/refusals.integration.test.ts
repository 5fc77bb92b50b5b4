import { create, toBinary } from '@bufbuild/protobuf';
import { newProducerKey, RefusedRequestSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { useDatabase } from '@weighbridge/testing';
import { signBatch } from '@weighbridge/usage';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { decodeRefusals } from './decodeRefusals.ts';
import { findRefusals } from './findRefusals.ts';
import { pruneRefusals } from './pruneRefusals.ts';
import { recordRefusals } from './recordRefusals.ts';
import { type RefusalBatch, type RefusalRow, ROWS_PER_KEY_AND_MINUTE } from './refusal.ts';

const database = useDatabase();
beforeEach(async () => {
  await sql`TRUNCATE refused_requests, refusal_batches`.execute(database.db);
});

const NOW = new Date('2026-11-20T10:00:30Z');
const MINUTE = new Date('2026-11-20T10:00:00Z');

const row = (changes: Partial<RefusalRow> = {}): RefusalRow => ({
  id: newUuid(),
  refused_at: NOW,
  request_id: `req_${newUuid()}`,
  key_id: 'key_1',
  principal_id: 'ada',
  policy_id: 'pol_1',
  endpoint: 'chat_completions',
  model_requested: 'mock/echo',
  http_status: 429,
  code: 'budget_exhausted',
  message: 'used up',
  attempts: 0,
  counter: null,
  attribution: '{}',
  counts: null,
  ...changes,
});
const countRow = (counts: Record<string, number>, changes: Partial<RefusalRow> = {}) =>
  row({ request_id: '', code: '', refused_at: MINUTE, counts, ...changes });

const batch = (
  n: number,
  rows: RefusalRow[],
  run = { producerId: newUuid(), epoch: newUuid() },
): RefusalBatch => ({
  ...run,
  n: BigInt(n),
  rows,
});
const record = (one: RefusalBatch) => recordRefusals(database.db, one, NOW);
const all = () =>
  findRefusals(
    database.db,
    { from: new Date(0), to: new Date('2030-01-01T00:00:00Z'), unsentOnly: false },
    { after: undefined, limit: 10_000 },
  );

describe('refused requests in the database', () => {
  it('are recorded once, however often and in whichever order their batches arrive', async () => {
    const run = { producerId: newUuid(), epoch: newUuid() };
    const [first, second] = [
      batch(1, [row(), countRow({ a: 3 })], run),
      batch(2, [row(), countRow({ a: 4, b: 1 })], run),
    ];
    await Promise.all([record(first), record(first)]);
    await record(second);
    await record(first);
    await record(second);
    const rows = await all();
    expect(rows.filter(({ counts }) => counts === null)).toHaveLength(2);
    expect(rows.filter(({ counts }) => counts !== null)).toMatchObject([{ counts: { a: 7, b: 1 } }]);
  });

  it('of several proxies together are at most 100 rows of a key and minute, and one that counts', async () => {
    const proxies = Array.from({ length: 4 }, () =>
      batch(
        1,
        Array.from({ length: 60 }, () => row()),
      ),
    );
    await Promise.all(proxies.map(record));
    await record(batch(1, [countRow({ rate_limit_exceeded: 5 }), row({ key_id: 'key_2' })]));
    const rows = (await all()).filter(({ key_id }) => key_id === 'key_1');
    expect(rows.filter(({ counts }) => counts === null)).toHaveLength(ROWS_PER_KEY_AND_MINUTE);
    const counts = rows.filter((one) => one.counts !== null);
    expect(counts).toMatchObject([
      { refused_at: MINUTE, counts: { budget_exhausted: 140, rate_limit_exceeded: 5 } },
    ]);
    expect(await all()).toHaveLength(102);
  });

  it('are deleted after a while, in short transactions', async () => {
    const rows = Array.from({ length: 90 }, (_, at) =>
      row({ refused_at: new Date(NOW.getTime() - at * 86_400_000) }),
    );
    await record(batch(1, rows));
    const deleted = await pruneRefusals(database.db, {
      refusedBefore: new Date(NOW.getTime() - 30 * 86_400_000),
    });
    expect(deleted).toBe(59);
    expect(await all()).toHaveLength(31);
  });
});

describe('a batch of refused requests', () => {
  const { key } = newProducerKey();
  const encoded = (changes: object = {}) =>
    toBinary(
      RefusedRequestSchema,
      create(RefusedRequestSchema, {
        id: newUuid(),
        requestId: 'req_1',
        keyId: 'key_1',
        principalId: 'ada',
        policyId: 'pol_1',
        refusedAtMs: BigInt(NOW.getTime()),
        code: 'budget_exhausted',
        httpStatus: 429,
        ...changes,
      }),
    );
  const signed = (events: Uint8Array[], signer = key, purpose: 'usage' | 'refusals' = 'refusals') =>
    signBatch(
      { producerId: key.producerId, epoch: newUuid(), shard: 0, firstN: 1n, events },
      signer,
      purpose,
    );

  it('is read if its producer signed it, for this purpose, and sent it', () => {
    const payload = signed([encoded()]);
    expect(decodeRefusals(payload, key.producerId)?.rows).toMatchObject([
      { request_id: 'req_1', counts: null },
    ]);
    expect(decodeRefusals(payload, newUuid())).toBeUndefined();
    expect(decodeRefusals(signed([encoded()], newProducerKey().key), key.producerId)).toBeUndefined();
    expect(decodeRefusals(signed([encoded()], key, 'usage'), key.producerId)).toBeUndefined();
    expect(decodeRefusals(Buffer.from('{'), 'weighbridge-doctor')).toBeUndefined();
  });

  it.each([
    ['of no id', { id: 'x' }],
    ['of no key', { keyId: '' }],
    ['with NUL in its id', { requestId: 'a\0' }],
    ['without a code', { code: '' }],
    ['with NUL in its model', { modelRequested: '\0' }],
    ['of no time', { refusedAtMs: 2n ** 62n }],
    ['of a long principal', { principalId: 'x'.repeat(2_000) }],
    ['with NUL in a label', { attribution: { labels: { a: '\0' } } }],
  ])('leaves out a row %s, which can not be stored', async (_name, changes) => {
    const decoded = decodeRefusals(signed([encoded(changes), encoded()]), key.producerId);
    expect(decoded?.rows).toHaveLength(1);
    if (decoded) await record(decoded);
    expect(await all()).toHaveLength(1);
  });

  it('stores the names and labels that callers choose as they are', async () => {
    const labels = JSON.parse('{"__proto__":"x","constructor":"y"}');
    const attribution = { team: "'; DROP TABLE refused_requests; --", labels };
    const decoded = decodeRefusals(
      signed([
        encoded({ attribution, modelRequested: '\u202e<script>' }),
        encoded({ counts: labels && { constructor: 2 } }),
      ]),
      key.producerId,
    );
    if (decoded) await record(decoded);
    expect(await all()).toMatchObject([
      { model_requested: '\u202e<script>', attribution: { team: attribution.team, labels } },
      { counts: { constructor: 2 } },
    ]);
  });
});
