import { create, toBinary } from '@bufbuild/protobuf';
import { type Key, Outcome, UsageBatchSchema, UsageEventSchema, usageShard } from '@weighbridge/contracts';
import { newId, newUuid } from '@weighbridge/domain';
import { addEvidence } from '@weighbridge/evidence';
import { decodeBatch, readIdRange, recordUsage } from '@weighbridge/ledger';
import type { TestApi } from './testApi.ts';

/** A request that a proxy admitted, with the key as it was then. */
interface Admitted {
  readonly key: Key;
  readonly at: Date;
}

/** A proxy as the ledger sees it. */
export interface TestProxy {
  readonly producerId: string;
  readonly epoch: string;
  admit(token: string): Promise<Admitted>;
  /** Records the cost in the ledger, encoded and decoded as between proxy and metering. */
  settle(admitted: Admitted, costNano: bigint): Promise<void>;
  /** Admits a request and settles it. */
  spend(token: string, costNano: bigint): Promise<void>;
  /** The number of its last event, by shard. */
  readonly lastN: readonly bigint[];
}

export function testProxy(api: TestApi): TestProxy {
  const producerId = newUuid();
  const epoch = newUuid();
  const lastN = [0n, 0n, 0n, 0n];

  async function admit(token: string): Promise<Admitted> {
    return { key: await api.resolve(token), at: api.now };
  }

  async function settle({ key, at }: Admitted, costNano: bigint): Promise<void> {
    const buckets = key.policies.flatMap(({ bucket }) => (bucket ? [bucket] : []));
    if (buckets.length === 0) throw new Error('the key has no bucket');
    const event = create(UsageEventSchema, {
      eventId: newUuid(),
      requestId: newId('req'),
      keyId: key.id,
      principalId: key.principalId,
      buckets,
      modelRequested: 'mock/echo',
      model: 'mock/echo',
      connectorId: 'con_1',
      usage: { input: 1, output: 2 },
      costNanoUsd: costNano,
      priceVersion: 1,
      outcome: Outcome.SUCCESS,
      httpStatus: 200,
      admittedAtMs: BigInt(at.getTime()),
      settledAtMs: BigInt(api.now.getTime()),
      attempt: 1,
      modelAttempt: 1,
    });
    const shard = usageShard(key.principalId);
    const n = (lastN[shard] ?? 0n) + 1n;
    lastN[shard] = n;
    const events = [toBinary(UsageEventSchema, event)];
    const batch = create(UsageBatchSchema, { producerId, epoch, shard, firstN: n, events });
    const usage = decodeBatch(toBinary(UsageBatchSchema, batch), await readIdRange(api.db));
    if (usage.refused.length > 0)
      throw new Error(`the ledger refused the event: ${usage.refused[0]?.reason}`);
    await recordUsage(api.db, usage, new Date(), { lastStep: addEvidence });
  }

  return {
    producerId,
    epoch,
    lastN,
    admit,
    settle,
    spend: async (token, costNano) => await settle(await admit(token), costNano),
  };
}
