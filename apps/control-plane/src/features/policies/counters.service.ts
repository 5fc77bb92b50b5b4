import type { Tx } from '@weighbridge/database';
import { windowAt } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { hasArchive, openCounter, setBucketLimits, setCounterLimits } from '@weighbridge/ledger';
import { reclaimExcess } from '../leases/reclaims.ts';
import { findPolicy, updatePolicy } from './policies.repository.ts';

/** What a change of a policy, or of an override, does to the counters of the policy. */
export interface CounterChange {
  /** As in a bucket: of a policy or a further limit. */
  readonly policyId: string;
  /** Only this counter has a new limit, by its override. */
  readonly subject?: string;
  /** The policy has a new counter version, so a new counter starts. */
  readonly isNew?: boolean;
  readonly hasNewLimit?: boolean;
  readonly at: Date;
}

/**
 * Opens the counters that changes of policies start, and gives the buckets their new limits, in the transaction of the changes: after
 * the commit, no lease is granted by a previous limit. Lease calls wait from here on.
 */
export async function updateCounters(tx: Tx, changes: readonly CounterChange[]): Promise<void> {
  for (const [policyId, at] of latest(changes.filter(({ isNew }) => isNew))) await open(tx, policyId, at);
  const limited = changes.filter(({ hasNewLimit }) => hasNewLimit);
  if (limited.length === 0) return;
  const at = new Date(Math.max(...limited.map((change) => change.at.getTime())));
  const policyIds = [
    ...new Set(limited.flatMap(({ policyId, subject }) => (subject === undefined ? [policyId] : []))),
  ];
  if (policyIds.length > 0) {
    await setBucketLimits(tx, policyIds, at);
    await reclaimExcess(tx, { policyIds });
  }
  const counters = limited.flatMap(({ policyId, subject }) => {
    return subject === undefined ? [] : [{ policyId, subject }];
  });
  if (counters.length === 0) return;
  await reclaimExcess(tx, { bucketKeys: await setCounterLimits(tx, counters, at) });
}

/** When each policy was changed last. */
function latest(changes: readonly CounterChange[]): ReadonlyMap<string, Date> {
  return new Map(changes.map(({ policyId, at }) => [policyId, at]));
}

async function open(tx: Tx, policyId: string, at: Date): Promise<void> {
  const policy = await findPolicy(tx, policyId);
  // A later change of the same transaction deleted it.
  if (!policy) return;
  const ledgerStart = await openCounter(tx, policy, at);
  const { start } = windowAt(policy.window_kind, policy.timezone, at);
  const lacksDays = ledgerStart !== null && ledgerStart > start && ledgerStart > policy.created_at;
  if (lacksDays && (await hasArchive(tx))) throw needsArchive(ledgerStart);
  if (policy.window_kind !== 'none') return;
  await updatePolicy(tx, policyId, { counter_since: countedSince(policy.created_at, ledgerStart) });
}

function needsArchive(ledgerStart: Date): AppError {
  const message = `This change starts a new counter, which would lack what the policy spent before ${ledgerStart.toISOString().slice(0, 10)}: those days are archived. Make a new policy instead, or choose a window that ends.`;
  return new AppError('conflict', 'window_needs_archive', message, { param: 'window' });
}

/** The start of a counter without a window, which counts everything that the ledger has for its policy. */
function countedSince(createdAt: Date, ledgerStart: Date | null): Date {
  return ledgerStart !== null && ledgerStart > createdAt ? ledgerStart : createdAt;
}
