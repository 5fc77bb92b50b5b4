import { create, toBinary } from '@bufbuild/protobuf';
import { UsageBatchSchema } from '@weighbridge/contracts';
import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { anyEvent, text, uint32 } from '../../test/anyEvent.ts';
import { useLedger, uuidAt } from '../../test/ledger.ts';
import { encodedEvent } from '../../test/usageEvents.ts';
import { readIdRange } from '../maintenance/partitions.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { decodeBatch } from './decodeUsage.ts';

const ledger = useLedger();
const producerId = '5f0c8f5e-8a86-4d0e-9d63-0d1c7a1f0a01';

describe('validation', () => {
  it('accepts nothing that the database refuses: each event is recorded or quarantined', async () => {
    const ids = await readIdRange(ledger.db);
    let recorded = 0;
    let refused = 0;
    let firstN = 1n;
    const epoch = uuidAt(new Date());
    await fc.assert(
      fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 20 }), async (events) => {
        const payload = toBinary(
          UsageBatchSchema,
          create(UsageBatchSchema, { producerId, epoch, shard: 2, firstN, events }),
        );
        const usage = decodeBatch(payload, ids);
        expect(usage.events.length + usage.refused.length).toBe(events.length);
        const { acks } = await recordUsage(ledger.db, usage);
        firstN += BigInt(events.length);
        expect(acks).toEqual([{ producerId, epoch, shard: 2, n: firstN - 1n }]);
        recorded += usage.events.length;
        refused += usage.refused.length;
      }),
      { numRuns: 100 },
    );
    const { rows } = await sql<{ events: number; held: number }>`
      SELECT (SELECT count(*)::integer FROM usage_events) AS events,
             (SELECT count(*)::integer FROM quarantined_usage) AS held`.execute(ledger.db);
    expect(rows).toEqual([{ events: recorded, held: refused }]);
    // Enough of both kinds for the test to be meaningful.
    expect(Math.min(recorded, refused)).toBeGreaterThan(100);
  });

  it('refuses a message without a valid producer as a whole, and marks no numbers of it as received', async () => {
    const ids = await readIdRange(ledger.db);
    await fc.assert(
      fc.asyncProperty(
        fc.record(
          {
            producerId: fc.oneof(fc.uuid(), text),
            epoch: fc.oneof(fc.uuid(), text),
            shard: fc.oneof(fc.nat({ max: 3 }), uint32),
            firstN: fc.oneof(fc.bigInt({ min: 1n, max: 99n }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })),
          },
          { requiredKeys: [] },
        ),
        async (identity) => {
          const payload = toBinary(
            UsageBatchSchema,
            create(UsageBatchSchema, { ...identity, events: [encodedEvent()] }),
          );
          const usage = decodeBatch(payload, ids);
          await recordUsage(ledger.db, usage);
          if (usage.refused.length > 0) {
            expect(usage).toMatchObject({ events: [], received: [], refused: [{ kind: 'batch', payload }] });
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});
