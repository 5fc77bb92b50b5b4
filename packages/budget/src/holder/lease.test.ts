import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { BucketRef } from '../bucketRef.ts';
import { Lease } from './lease.ts';

const BUCKET = { policyId: 'pol_1', counterVersion: 1, subject: 'ada', windowStartMs: 0n } as BucketRef;
const amount = fc.bigInt({ min: 0n, max: 1_000n });
const steps = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('grant' as const), amount }),
    fc.record({ kind: fc.constant('reserve' as const), amount }),
    fc.record({ kind: fc.constant('settle' as const), amount }),
    fc.record({ kind: fc.constant('return' as const), amount }),
    fc.record({ kind: fc.constant('restart' as const), amount }),
  ),
);

it('has available what was granted and not returned, used or reserved, after any steps', () => {
  fc.assert(
    fc.property(steps, (steps) => {
      let lease = new Lease(BUCKET);
      const reserved: bigint[] = [];
      for (const { kind, amount } of steps) {
        if (kind === 'grant') lease.grant(BigInt(lease.toPersisted().granted) + amount);
        else if (kind === 'return') lease.returnBeyond(amount);
        else if (kind === 'reserve') {
          reserved.push(amount);
          lease.reserve(amount, 0);
        } else if (kind === 'settle') {
          const held = reserved.pop();
          if (held !== undefined) lease.settle(held, amount);
        } else if (reserved.length === 0) {
          const { bucket: _, ...figures } = lease.toPersisted();
          lease =
            amount % 2n === 0n
              ? new Lease(BUCKET, lease.toPersisted())
              : Lease.remembered(BUCKET, figures, 0);
        }
        const { granted, returned, used } = lease.toPersisted();
        const held = reserved.reduce((sum, one) => sum + one, 0n);
        expect(lease.reserved).toBe(held);
        expect(lease.available).toBe(BigInt(granted) - BigInt(returned) - BigInt(used) - held);
      }
    }),
  );
});
