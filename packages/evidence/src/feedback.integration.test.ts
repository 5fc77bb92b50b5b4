import { HALF_LIFE_MS } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { type AttemptFields, attempt, recordAttempts, useLedger } from '../test/attempts.ts';
import {
  countPendingFeedback,
  type Feedback,
  MAX_PENDING,
  readFeedback,
  recordFeedback,
} from './feedback.ts';
import { readStrata } from './readEvidence.ts';

const ledger = useLedger();

const NOW = new Date('2026-11-10T12:00:00Z');
const later = (ms: number) => new Date(NOW.getTime() + ms);
const TYPE = { key: '00112233aabbccdd', name: 'chat' };
const ATTRIBUTION = { workload_type: 'chat', workload_type_sha256: `${TYPE.key}${'0'.repeat(48)}` };
const WAIT_MS = 600_000;

let ids = 0;
const served = (fields: AttemptFields = {}) =>
  recordAttempts(
    ledger.db,
    [attempt(++ids, { request: 'req_1', workloadType: TYPE, attribution: ATTRIBUTION, ...fields })],
    NOW,
  );
const rate = (score: number, more: Partial<Feedback> = {}, rules: { now?: Date; mayArrive?: boolean } = {}) =>
  recordFeedback(
    ledger.db,
    { requestId: 'req_1', principalId: 'ada', keyId: 'key_1', score, comment: undefined, ...more },
    { now: NOW, mayArrive: false, ...rules },
  );
const scores = async (now = NOW) =>
  (await readStrata(ledger.db, {}, now)).map(({ model, scores: count, scoreSum }) => ({
    model,
    count,
    scoreSum,
  }));

describe('feedback', () => {
  it('counts for the model that responded', async () => {
    await served({ attempt: 1, model: 'mock/first', outcome: 'upstream_error' });
    await served({ attempt: 2, model: 'mock/second' });
    expect(await rate(0.75, { comment: 'mostly right' })).toBe('counted');
    expect(await scores()).toEqual([
      { model: 'mock/first', count: 0, scoreSum: 0 },
      { model: 'mock/second', count: 1, scoreSum: 0.75 },
    ]);
    expect((await readFeedback(ledger.db, ['req_1'])).get('req_1')).toMatchObject([
      { score: 0.75, comment: 'mostly right', principal_id: 'ada' },
    ]);
  });

  it('counts once: later feedback replaces the earlier one', async () => {
    await served();
    await rate(1);
    await rate(0.25);
    expect(await scores()).toEqual([{ model: 'mock/echo', count: 1, scoreSum: 0.25 }]);
    // After a half-life it counts half, and so does its replacement.
    const at = later(HALF_LIFE_MS);
    await rate(0.75, {}, { now: at });
    expect(await scores(at)).toEqual([{ model: 'mock/echo', count: 0.5, scoreSum: 0.375 }]);
    const end = later(2 * HALF_LIFE_MS);
    await rate(0, {}, { now: end });
    expect(await scores(end)).toEqual([{ model: 'mock/echo', count: 0.25, scoreSum: 0 }]);
  });

  it('counts once when sent many times at once', async () => {
    await served();
    await Promise.all(Array.from({ length: 8 }, () => rate(0.5)));
    expect(await scores()).toEqual([{ model: 'mock/echo', count: 1, scoreSum: 0.5 }]);
  });

  it("is the same for another principal's request and a missing one, and counts for neither", async () => {
    await served();
    for (const mayArrive of [true, false]) {
      for (const requestId of ['req_1', 'req_2']) {
        const result = await rate(0, { principalId: 'eve', requestId }, { mayArrive });
        expect(result).toBe(mayArrive ? 'pending' : 'unknown');
      }
    }
    // No one else's row shows it.
    expect((await readFeedback(ledger.db, ['req_1'])).size).toBe(0);
    expect(await scores()).toEqual([{ model: 'mock/echo', count: 0, scoreSum: 0 }]);
  });

  it('is pending until its request is in the ledger', async () => {
    expect(await rate(0, {}, { mayArrive: true })).toBe('pending');
    expect(await rate(0.5, {}, { mayArrive: true })).toBe('pending');
    expect(await countPendingFeedback(ledger.db, NOW, WAIT_MS)).toBe(0);
    await served();
    expect(await countPendingFeedback(ledger.db, NOW, WAIT_MS)).toBe(1);
    expect(await countPendingFeedback(ledger.db, NOW, WAIT_MS)).toBe(0);
    expect(await scores()).toEqual([{ model: 'mock/echo', count: 1, scoreSum: 0.5 }]);
  });

  it("is deleted if the request turns out to be another principal's, or never arrives", async () => {
    await rate(0, { principalId: 'eve' }, { mayArrive: true });
    await rate(1, { requestId: 'req_never' }, { mayArrive: true });
    await served();
    await countPendingFeedback(ledger.db, NOW, WAIT_MS);
    expect(await scores()).toEqual([{ model: 'mock/echo', count: 0, scoreSum: 0 }]);
    expect((await readFeedback(ledger.db, ['req_1', 'req_never'])).size).toBe(1);
    await countPendingFeedback(ledger.db, later(WAIT_MS + 1), WAIT_MS);
    expect((await readFeedback(ledger.db, ['req_1', 'req_never'])).size).toBe(0);
  });

  it('is pending for a limited number of requests per principal', async () => {
    await ledger.db
      .insertInto('feedback')
      .values(
        Array.from({ length: MAX_PENDING }, (_, n) => ({
          request_id: `req_w${n}`,
          principal_id: 'ada',
          key_id: 'key_1',
          score: 0,
          given_at: NOW,
        })),
      )
      .execute();
    expect(await rate(0, {}, { mayArrive: true })).toBe('too_many');
    expect(await rate(0, { principalId: 'bob' }, { mayArrive: true })).toBe('pending');
  });
});
