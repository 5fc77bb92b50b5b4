import { newUuid } from '@weighbridge/domain';
import { expectCost } from '@weighbridge/testing';
import { describe, it } from 'vitest';
import { encodeIntent, encodeSettle, epochSeed } from '../src/spool/recordFormat.ts';

describe('the cost of a request is bounded:', () => {
  it('framing the records of the spool', () => {
    const seed = epochSeed(newUuid());
    const eventId = newUuid();
    const [head, tail] = [new Uint8Array(330).fill(1), new Uint8Array(70).fill(2)];
    const intent = { eventId, shard: 1, reserveNanoUsd: 1_000n, head };
    const frame = () => {
      encodeIntent(seed, intent);
      encodeSettle(seed, intent, 7n, tail);
    };
    expectCost('framing', frame, 300);
  });
});
