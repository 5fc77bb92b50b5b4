import { bucketAt, POLICY_SUBJECT } from '@weighbridge/budget';
import { expect, it } from 'vitest';
import { FIRST_DAY, HOT_DAYS, useArchive } from '../../test/archivedLedger.ts';
import { eventId, ledgerEvent } from '../../test/events.ts';
import { eventsOnly, openMonth, useLedger, uuidAt } from '../../test/ledger.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { archiveNextDay } from './archiveDay.ts';
import { rebuildBuckets } from './rebuild.ts';

const ledger = useLedger();
const opened = useArchive();

it('a day that is archived has counted what was appended to a shared counter, though nothing was merged before', async () => {
  const { db } = ledger;
  await openMonth(db, FIRST_DAY);
  const { row, ...event } = ledgerEvent(1, { admittedAt: FIRST_DAY, cost: 5n });
  const buckets = [bucketAt({ policyId: 'pol_a', counterVersion: 1, subject: POLICY_SUBJECT }, FIRST_DAY)];
  const origin = { producer_id: eventId(1), epoch: eventId(2), shard: 0, n: 1n };
  const appended = { ...event, buckets, row: { ...row, ...origin, event_id: uuidAt(FIRST_DAY) } };
  await recordUsage(db, eventsOnly([appended]), new Date(), { appends: true });

  const manifest = await archiveNextDay(db, opened.archive, { now: new Date(), hotDays: HOT_DAYS });
  expect(manifest?.rows).toBe(1);

  const shared = await db
    .selectFrom('spend_buckets')
    .selectAll()
    .where('subject', '=', POLICY_SUBJECT)
    .execute();
  expect(shared).toMatchObject([{ spent_nano_usd: 5n, opening_nano_usd: 5n }]);
  expect(await rebuildBuckets(db, { apply: false })).toMatchObject({ differingBuckets: 0 });
});
