import { fromBinary } from '@bufbuild/protobuf';
import { RefusedRequestSchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import {
  MAX_CALLERS,
  MAX_WAITING_BYTES,
  RefusalBook,
  type RequestRefusal,
  ROWS_PER_KEY_AND_MINUTE,
  ROWS_PER_PRINCIPAL_AND_MINUTE,
} from './refusalBook.ts';

const NOW = Date.parse('2026-11-20T10:00:30Z');
const MINUTE = Date.parse('2026-11-20T10:00:00Z');

const refusal = (changes: Partial<RequestRefusal> = {}): RequestRefusal => ({
  requestId: 'req_1',
  keyId: 'key_1',
  principalId: 'ada',
  policyId: 'pol_1',
  endpoint: 'chat_completions',
  modelRequested: 'mock/echo',
  status: 429,
  code: 'budget_exhausted',
  message: 'used up',
  attempts: 0,
  counter: undefined,
  attribution: () => ({ labels: {} }),
  ...changes,
});

function book() {
  let dropped = 0;
  const kept = new RefusalBook((count) => {
    dropped += count;
  });
  return {
    kept,
    dropped: () => dropped,
    /** All that waits. */
    taken() {
      const all = [];
      for (let more = kept.take(1_000, 1e9); more.length > 0; more = kept.take(1_000, 1e9)) all.push(...more);
      return all.map((bytes) => fromBinary(RefusedRequestSchema, bytes));
    },
  };
}

describe('refused requests', () => {
  it('have a row each, with the counter and the attribution', () => {
    const { kept, taken } = book();
    const counter = {
      bucket: { policyId: 'pol_1', counterVersion: 1, subject: 'ada', windowStartMs: 5n },
      limits: 'budget' as const,
      limit: 100n,
      spent: 90n,
      wanted: 20n,
      resetsAtMs: 9,
    };
    kept.note(refusal({ counter, attribution: () => ({ team: 'x', labels: { a: 'b' } }) }), NOW);
    const [row] = taken();
    expect(row).toMatchObject({
      requestId: 'req_1',
      refusedAtMs: BigInt(NOW),
      httpStatus: 429,
      code: 'budget_exhausted',
      counter: { limits: 'budget', limit: 100n, spent: 90n, wanted: 20n, resetsAtMs: 9n },
      attribution: { team: 'x', labels: { a: 'b' } },
      counts: {},
    });
    expect(kept.isEmpty).toBe(true);
  });

  it('of one key have 100 rows a minute; the rest is counted by code, and again in the next minute', () => {
    const { kept, taken, dropped } = book();
    for (let at = 0; at < 1_000; at++) {
      kept.note(refusal({ code: at % 4 === 0 ? 'rate_limit_exceeded' : 'budget_exhausted' }), NOW);
    }
    const rows = taken();
    expect(rows.filter(({ requestId }) => requestId)).toHaveLength(ROWS_PER_KEY_AND_MINUTE);
    const counts = rows.filter(({ requestId }) => requestId === '');
    expect(counts).toMatchObject([
      { refusedAtMs: BigInt(MINUTE), counts: { rate_limit_exceeded: 225, budget_exhausted: 675 } },
    ]);
    kept.note(refusal(), NOW);
    expect(taken()).toMatchObject([{ requestId: '', counts: { budget_exhausted: 1 } }]);
    kept.note(refusal(), NOW + 60_000);
    expect(taken()).toMatchObject([{ requestId: 'req_1' }]);
    expect(dropped()).toBe(0);
  });

  it('of a principal with many keys have few rows too', () => {
    const { kept, taken } = book();
    for (let at = 0; at < 2_000; at++) kept.note(refusal({ keyId: `key_${at % 50}` }), NOW);
    const rows = taken();
    const counted = rows.flatMap(({ counts }) => Object.values(counts)).reduce((a, b) => a + b, 0);
    expect(rows.filter(({ requestId }) => requestId)).toHaveLength(ROWS_PER_PRINCIPAL_AND_MINUTE);
    expect(counted).toBe(2_000 - ROWS_PER_PRINCIPAL_AND_MINUTE);
  });

  it('that no one takes never hold more memory than that, and no principal more than its share', () => {
    const { kept, taken } = book();
    const long = '\u{1F4A5}'.repeat(20_000);
    const labels = Object.fromEntries(Array.from({ length: 32 }, (_, n) => [`${n}`, 'x'.repeat(256)]));
    for (let minute = 0; minute < 60; minute++) {
      for (let at = 0; at < 300; at++) {
        const attribution = () => ({ labels });
        kept.note(refusal({ message: long, modelRequested: long, attribution }), NOW + minute * 60_000);
      }
    }
    kept.note(refusal({ keyId: 'key_b', principalId: 'bob', requestId: 'req_bob' }), NOW + 3_600_000);
    const rows = taken();
    const bytes = rows.reduce((sum, row) => sum + row.message.length * 4 + row.modelRequested.length * 4, 0);
    expect(bytes).toBeLessThan(MAX_WAITING_BYTES);
    expect(rows.some(({ requestId }) => requestId === 'req_bob')).toBe(true);
    const counted = rows.flatMap(({ counts }) => Object.values(counts)).reduce((a, b) => a + b, 0);
    expect(counted + rows.filter(({ requestId }) => requestId).length).toBe(60 * 300 + 1);
  });

  it('of more keys than a minute has places for are only in the metric', () => {
    const { kept, dropped } = book();
    for (let at = 0; at < MAX_CALLERS + 7; at++)
      kept.note(refusal({ keyId: `key_${at}`, principalId: `p${at}` }), NOW);
    expect(dropped()).toBe(7);
  });

  it('have odd names and labels as they are stored: without NUL, in valid UTF-8, and not all of many labels', () => {
    const { kept, taken } = book();
    const labels = JSON.parse('{"__proto__":"x","constructor":"y"}');
    for (let at = 0; at < 30; at++) labels[`l${at}`] = 'z'.repeat(256);
    kept.note(
      refusal({ modelRequested: `a\0b\ud800${'x'.repeat(999)}`, attribution: () => ({ labels }) }),
      NOW,
    );
    const [row] = taken();
    expect(row?.modelRequested.startsWith('a\ufffdb\ufffdxx')).toBe(true);
    expect(row?.modelRequested).toHaveLength(256);
    expect(Object.entries(row?.attribution?.labels ?? {}).slice(0, 2)).toEqual([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ]);
    expect(Object.keys(row?.attribution?.labels ?? {}).length).toBeLessThan(8);
  });
});
