import { randomUUID } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { natsAddress } from '@weighbridge/bus';
import { newProducerKey, Outcome, USAGE_SHARDS, UsageEventSchema } from '@weighbridge/contracts';
import { signBatch } from '@weighbridge/usage';
import { expect } from 'vitest';
import { chat, type HostileCase } from './hostileCase.ts';
import { type Mode, operate } from './product.ts';
import type { Scene, Tenant } from './scene.ts';

/** What a process with a proxy's NATS user can do to the usage of other proxies. Embedded mode has no NATS. */
export const forgeryCases = (mode: Mode): readonly HostileCase[] =>
  mode === 'distributed'
    ? [
        {
          row: 'usage',
          title:
            "usage that is published as another proxy's is not recorded, and nothing of that proxy's is lost",
          run: forgedUsageIsDropped,
        },
      ]
    : [];

const REQUESTS = 60;
/** More than the proxy settles in this suite. */
const FORGED_NUMBERS = 256;

/**
 * The numbers of events that the victim is about to write are claimed, over and over: a ledger that believes it acks them, and the
 * victim's events that wait to be sent are taken for sent.
 */
async function forgedUsageIsDropped({ product, tenant }: Scene): Promise<void> {
  const victim = await proxyOf(product);
  const caller = await tenant();
  await caller.ask('/v1/chat/completions', chat('openai/plain'));
  const [row] = await caller.rows(1);
  const connection = await connect(natsAddress(product.natsUrls?.['data-plane'] ?? ''));
  let isDone = false;
  const forging = (async () => {
    const js = jetstream(connection);
    for (let at = 0; !isDone; at++) {
      const publishes = messages(victim, caller, row ?? {}, at).map(({ subject, payload }) =>
        js.publish(subject, payload),
      );
      await Promise.all(publishes);
    }
    return connection.flush();
  })();
  try {
    for (let sent = 0; sent < REQUESTS; sent++) {
      expect((await caller.ask('/v1/chat/completions', chat('openai/plain'))).status).toBe(200);
    }
  } finally {
    isDone = true;
    await forging;
    await connection.close();
  }
  // One more, through the same shard as what was forged: the ledger has handled all of that by then.
  await caller.ask('/v1/chat/completions', chat('openai/plain'));
  const rows = await caller.rows(REQUESTS + 2);
  expect(rows).toHaveLength(REQUESTS + 2);
  expect(await caller.charged(REQUESTS + 2)).toBe(caller.billed());
}

interface Producer {
  readonly producerId: string;
  readonly epoch: string;
}

/** A proxy's ids, which its acks and its operators' lists show. */
async function proxyOf(product: Scene['product']): Promise<Producer> {
  const { data } = await operate(product, 'GET', '/api/v1/proxies');
  const [proxy] = data as { id: string; producer_id: string }[];
  if (!proxy) throw new Error('there is no proxy');
  return { producerId: proxy.producer_id, epoch: proxy.id };
}

/** A message for each shard: unsigned, as earlier releases sent it, or signed by the forger's own key. */
function messages(victim: Producer, caller: Tenant, row: Record<string, unknown>, at: number) {
  const key = at % 2 === 0 ? undefined : newProducerKey().key;
  const firstN = 1n + BigInt(at * FORGED_NUMBERS);
  return Array.from({ length: USAGE_SHARDS }, (_, shard) => {
    const events = Array.from({ length: FORGED_NUMBERS }, () => chargeTo(caller, row));
    const payload = signBatch({ ...victim, shard, firstN, events }, key);
    return { subject: `usage.v2.s${shard}.${victim.producerId}`, payload };
  });
}

/** An event at the caller's cost that the ledger would record. */
function chargeTo({ keyId, policyId, mark }: Tenant, row: Record<string, unknown>): Uint8Array {
  const now = BigInt(Date.now());
  return toBinary(
    UsageEventSchema,
    create(UsageEventSchema, {
      eventId: uuidv7(),
      requestId: `req_${uuidv7()}`,
      keyId,
      principalId: mark,
      buckets: [{ policyId, counterVersion: 1, subject: `key:${keyId}`, windowStartMs: now }],
      modelRequested: String(row.model),
      model: String(row.model),
      connectorId: String(row.connector_id),
      usage: { input: 1 },
      costNanoUsd: 1_000_000n,
      priceVersion: 1,
      outcome: Outcome.SUCCESS,
      httpStatus: 200,
      admittedAtMs: now,
      settledAtMs: now,
      attempt: 1,
      modelAttempt: 1,
    }),
  );
}

function uuidv7(): string {
  const time = Date.now().toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
