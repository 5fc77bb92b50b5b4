import { create, toBinary } from '@bufbuild/protobuf';
import {
  Outcome,
  PriceSource,
  USAGE_SHARDS,
  UsageBatchSchema,
  UsageEventSchema,
  usageShard,
} from '@weighbridge/contracts';

/** One event, as its proxy writes it and as the ledger is to hold it. */
export interface MeasuredEvent {
  readonly eventId: string;
  readonly shard: number;
  /** As protobuf. */
  readonly bytes: Uint8Array;
  readonly requestId: string;
  readonly keyId: string;
  readonly principalId: string;
  readonly policyId: string;
  /** What it counts in, by key. */
  readonly buckets: readonly MeasuredBucket[];
  readonly model: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costNanoUsd: bigint;
  readonly at: Date;
  readonly attribution: string;
}

export interface MeasuredBucket {
  readonly key: string;
  readonly policyId: string;
  readonly subject: string;
  readonly windowStart: Date;
}

/** A message of the usage stream. */
export interface MeasuredBatch {
  readonly producerId: string;
  readonly epoch: string;
  readonly shard: number;
  readonly firstN: number;
  readonly count: number;
  readonly payload: Uint8Array;
}

const PRINCIPALS = 500;
const KEYS_PER_PRINCIPAL = 2;
/** Teams whose policies count by principal; five departments above them count as a whole. */
const TEAMS = 20;
const DEPARTMENTS = 5;
const MODELS = ['openai/gpt-5', 'openai/gpt-5-mini', 'anthropic/claude-sonnet', 'mistral/large'];

/**
 * Events of a company of 500 principals, each with two keys and a favourite model; their ids rise. The same arguments give
 * the same events; `from` is how many there were before them.
 */
export function measuredEvents(count: number, now: Date, from = 0): MeasuredEvent[] {
  const windowStart = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1));
  return Array.from({ length: count }, (_, at) => measuredEvent(from + at, now, windowStart));
}

/** The events as messages, dealt out to so many producers in turns; each numbers its own from 1 by shard. */
export function measuredBatches(
  events: readonly MeasuredEvent[],
  { producers, eventsPerBatch }: { readonly producers: number; readonly eventsPerBatch: number },
): MeasuredBatch[] {
  const batches: MeasuredBatch[] = [];
  const nextN = new Map<string, number>();
  for (let shard = 0; shard < USAGE_SHARDS; shard++) {
    const ofShard = events.filter((event) => event.shard === shard);
    for (let at = 0; at < ofShard.length; at += eventsPerBatch) {
      const batch = ofShard.slice(at, at + eventsPerBatch);
      const producer = (at / eventsPerBatch) % producers;
      const producerId = uuid(0xaaaa_0000 + producer);
      const epoch = uuid(0xbbbb_0000 + producer);
      const firstN = nextN.get(`${producer}/${shard}`) ?? 1;
      nextN.set(`${producer}/${shard}`, firstN + batch.length);
      const payload = toBinary(
        UsageBatchSchema,
        create(UsageBatchSchema, {
          producerId,
          epoch,
          shard,
          firstN: BigInt(firstN),
          events: batch.map((event) => event.bytes),
        }),
      );
      batches.push({ producerId, epoch, shard, firstN, count: batch.length, payload });
    }
  }
  return inTurns(batches);
}

/** As they would come: the shards side by side. */
function inTurns(batches: readonly MeasuredBatch[]): MeasuredBatch[] {
  const byShard = Array.from({ length: USAGE_SHARDS }, (_, shard) =>
    batches.filter((batch) => batch.shard === shard),
  );
  const longest = Math.max(...byShard.map((list) => list.length));
  return Array.from({ length: longest }, (_, at) => byShard.flatMap((list) => list[at] ?? [])).flat();
}

function measuredEvent(at: number, now: Date, windowStart: Date): MeasuredEvent {
  // In turns, neighbours apart.
  const principal = (at * 7_919) % PRINCIPALS;
  const team = principal % TEAMS;
  const principalId = `principal-${principal}`;
  const keyId = `key_${principal}_${Math.floor(at / PRINCIPALS) % KEYS_PER_PRINCIPAL}`;
  const chain = [
    { policyId: `policy_team_${team}`, subject: `principal:${principalId}` },
    { policyId: `policy_department_${team % DEPARTMENTS}`, subject: 'policy' },
  ] as const;
  const eventId = uuidv7(now.getTime(), at);
  const requestId = `req_${eventId}`;
  const model = MODELS[principal % MODELS.length] ?? MODELS[0] ?? '';
  const inputTokens = 200 + (at % 1_800);
  const outputTokens = 50 + (at % 400);
  const costNanoUsd = BigInt(inputTokens * 1_250 + outputTokens * 10_000);
  const user = `user-${principal}`;
  const project = `project-${team}`;
  const counted = [
    ...chain,
    // The principal's own sum below each policy.
    ...chain.map(({ policyId }) => ({ policyId, subject: `principal:${principalId}` })),
  ].map((bucket) => ({
    ...bucket,
    key: `${bucket.policyId}/1/${windowStart.getTime()}/${bucket.subject}`,
    windowStart,
  }));
  const buckets = [...new Map(counted.map((bucket) => [bucket.key, bucket])).values()];
  const event = create(UsageEventSchema, {
    eventId,
    requestId,
    keyId,
    principalId,
    buckets: chain.map((bucket) => ({
      ...bucket,
      counterVersion: 1,
      windowStartMs: BigInt(windowStart.getTime()),
    })),
    modelRequested: model,
    model,
    connectorId: 'connector_1',
    usage: { input: inputTokens, output: outputTokens },
    costNanoUsd,
    priceVersion: 1,
    priceSource: PriceSource.CATALOG,
    outcome: Outcome.SUCCESS,
    httpStatus: 200,
    streamed: at % 2 === 0,
    admittedAtMs: BigInt(now.getTime()),
    settledAtMs: BigInt(now.getTime()),
    firstByteUs: 300_000,
    durationUs: 900_000,
    attribution: { user, team: `team-${team}`, project },
    responseId: `chatcmpl-${at}`,
    attempt: 1,
    modelAttempt: 1,
  });
  return {
    eventId,
    shard: usageShard(chain[0]),
    bytes: toBinary(UsageEventSchema, event),
    requestId,
    keyId,
    principalId,
    policyId: chain[0].policyId,
    buckets: buckets.toSorted((a, b) => (a.key < b.key ? -1 : 1)),
    model,
    inputTokens,
    outputTokens,
    costNanoUsd,
    at: now,
    attribution: JSON.stringify({ user, team: `team-${team}`, project }),
  };
}

/** https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7, counted up where others have chance. */
function uuidv7(unixMs: number, sequence: number): string {
  const time = unixMs.toString(16).padStart(12, '0');
  const high = Math.floor(sequence / 0x1_0000)
    .toString(16)
    .padStart(3, '0');
  const low = (sequence % 0x1_0000).toString(16).padStart(4, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${high}-8000-${low.padStart(12, '0')}`;
}

function uuid(number: number): string {
  return `00000000-0000-7000-8000-${number.toString(16).padStart(12, '0')}`;
}
