import { type Static, Type } from 'typebox';
import { Strict } from '../../shared/schemas.ts';

const NanoUsd = Type.String({ description: 'Nano-USD, exact, as a decimal integer.', examples: ['0'] });

const BucketDifference = Type.Object(
  { bucket: Type.String(), difference_nano_usd: NanoUsd },
  { title: 'BucketDifference' },
);

export const NewLedgerRebuild = Strict(
  { apply: Type.Boolean({ description: 'Whether to correct the buckets.', examples: [false] }) },
  { title: 'NewLedgerRebuild' },
);

export const LedgerRebuild = Type.Object(
  {
    applied: Type.Boolean(),
    events: Type.Integer({ description: 'Rows of the ledger that were summed.' }),
    buckets: Type.Integer({ description: 'Buckets that were compared with the sums.' }),
    difference_nano_usd: Type.String({
      description:
        'The sum of the absolute differences between buckets and ledger; "0" if all buckets are correct.',
      examples: ['0'],
    }),
    differing_buckets: Type.Integer(),
    differing_hours: Type.Integer({
      description:
        'Sums by hour and day, which spend breakdowns are read from, that differed from the ledger.',
    }),
    differing: Type.Array(BucketDifference, {
      description:
        'The amount to add to each bucket to correct it; the first 1000. Windows that ended days ago count by counter and month, such as pol_…/1/2026-11/policy.',
    }),
  },
  { title: 'LedgerRebuild' },
);
export type LedgerRebuild = Static<typeof LedgerRebuild>;
