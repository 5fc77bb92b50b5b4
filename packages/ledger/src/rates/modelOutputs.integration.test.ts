import { describe, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger } from '../../test/ledger.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { measureModelOutputs, readModelOutputs } from './modelOutputs.ts';

describe('the output length of a model', () => {
  const ledger = useLedger();
  const NOW = new Date('2026-11-20T12:00:00Z');

  it("is the 95th percentile of a model's recent responses with the vendor's own token count", async () => {
    const answers = Array.from({ length: 100 }, (_, n) =>
      ledgerEvent(n, { model: 'mock/echo', tokens: n + 1 }),
    );
    const guesses = Array.from({ length: 50 }, (_, n) =>
      ledgerEvent(1_000 + n, { model: 'mock/echo', tokens: 100_000, estimated: true }),
    );
    const failures = Array.from({ length: 50 }, (_, n) =>
      ledgerEvent(2_000 + n, { model: 'mock/echo', tokens: 0, outcome: 'upstream_error' }),
    );
    const hits = Array.from({ length: 50 }, (_, n) =>
      ledgerEvent(4_000 + n, { model: 'mock/echo', tokens: 0, cacheHit: true }),
    );
    const few = Array.from({ length: 19 }, (_, n) => ledgerEvent(3_000 + n, { model: 'mock/rare' }));
    await recordUsage(ledger.db, eventsOnly([...answers, ...guesses, ...failures, ...hits, ...few]));
    await measureModelOutputs(ledger.db, NOW);
    // An event has five times as many output tokens.
    expect(await readModelOutputs(ledger.db)).toEqual([{ model: 'mock/echo', p95Tokens: 475 }]);
  });

  it('keeps its last value for a model without recent traffic', async () => {
    await measureModelOutputs(ledger.db, NOW);
    expect(await readModelOutputs(ledger.db)).toEqual([{ model: 'mock/echo', p95Tokens: 475 }]);
  });
});
