import { create, toBinary } from '@bufbuild/protobuf';
import {
  newProducerKey,
  Outcome,
  PriceSource,
  type ProducerKey,
  USAGE_SHARDS,
  UsageEventSchema,
  usageShard,
} from '@weighbridge/contracts';
import { signBatch } from '@weighbridge/usage';

/** A usage event: its bytes as a proxy writes them, and its values as the ledger must store them. */
export interface GeneratedEvent {
  readonly eventId: string;
  readonly shard: number;
  /** The event as protobuf. */
  readonly bytes: Uint8Array;
  readonly requestId: string;
  readonly keyId: string;
  readonly principalId: string;
  readonly policyId: string;
  /** The buckets that it counts in, sorted by key. */
  readonly buckets: readonly GeneratedBucket[];
  readonly model: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costNanoUsd: bigint;
  readonly at: Date;
  readonly attribution: string;
}

export interface GeneratedBucket {
  readonly key: string;
  readonly policyId: string;
  readonly subject: string;
  readonly windowStart: Date;
}

/** A message of the usage stream. */
export interface GeneratedBatch {
  readonly producerId: string;
  readonly epoch: string;
  readonly shard: number;
  readonly firstN: number;
  readonly count: number;
  readonly payload: Uint8Array;
}

const PRINCIPALS = 500;
const KEYS_PER_PRINCIPAL = 2;
/** The policies of teams count per principal; those of the departments above them count all principals together. */
export const TEAMS = 20;
export const DEPARTMENTS = 5;
const MODELS = ['openai/gpt-5', 'openai/gpt-5-mini', 'anthropic/claude-sonnet', 'mistral/large'];

export interface GeneratedKind {
  /** All events are of one key, each with a user of its own. */
  readonly hasNewUsers?: boolean;
  /** The policies that an event counts in. By default, the team's and its department's. */
  readonly policies?: 'the company alone' | 'own of each principal';
  /** The window of the policies. By default, a month. */
  readonly window?: 'day' | 'month';
}

/**
 * Generates events of a company of 500 principals, each with two keys and a favourite model, with ascending ids. The same
 * arguments give the same events; `from` is the number of events generated before.
 */
export function generateEvents(
  count: number,
  now: Date,
  from = 0,
  kind: GeneratedKind = {},
): GeneratedEvent[] {
  const day = kind.window === 'day' ? now.getUTCDate() : 1;
  const windowStart = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), day));
  return Array.from({ length: count }, (_, at) => generateEvent(from + at, now, windowStart, kind));
}

/** Distributes the events over the producers, as messages. Each producer numbers its events from 1 in each shard. */
export function generateBatches(
  events: readonly GeneratedEvent[],
  { producers, eventsPerBatch }: { readonly producers: number; readonly eventsPerBatch: number },
): GeneratedBatch[] {
  const batches: GeneratedBatch[] = [];
  const nextN = new Map<string, number>();
  for (let shard = 0; shard < USAGE_SHARDS; shard++) {
    const ofShard = events.filter((event) => event.shard === shard);
    for (let at = 0; at < ofShard.length; at += eventsPerBatch) {
      const batch = ofShard.slice(at, at + eventsPerBatch);
      const producer = (at / eventsPerBatch) % producers;
      const key = keyOf(producer);
      const { producerId } = key;
      const epoch = uuid(0xbbbb_0000 + producer);
      const firstN = nextN.get(`${producer}/${shard}`) ?? 1;
      nextN.set(`${producer}/${shard}`, firstN + batch.length);
      const signed = {
        producerId,
        epoch,
        shard,
        firstN: BigInt(firstN),
        events: batch.map(({ bytes }) => bytes),
      };
      const payload = signBatch(signed, key);
      batches.push({ producerId, epoch, shard, firstN, count: batch.length, payload });
    }
  }
  return interleaveShards(batches);
}

/** Of this process: the ids of producers are hashes of their keys. */
const keys: ProducerKey[] = [];

function keyOf(producer: number): ProducerKey {
  keys[producer] ??= newProducerKey().key;
  return keys[producer];
}

/** Interleaves the shards, as in production. */
function interleaveShards(batches: readonly GeneratedBatch[]): GeneratedBatch[] {
  const byShard = Array.from({ length: USAGE_SHARDS }, (_, shard) =>
    batches.filter((batch) => batch.shard === shard),
  );
  const longest = Math.max(...byShard.map((list) => list.length));
  return Array.from({ length: longest }, (_, at) => byShard.flatMap((list) => list[at] ?? [])).flat();
}

function generateEvent(
  at: number,
  now: Date,
  windowStart: Date,
  { hasNewUsers = false, policies }: GeneratedKind,
): GeneratedEvent {
  // A stride, so that neighbouring events have different principals.
  const principal = hasNewUsers ? 0 : (at * 7_919) % PRINCIPALS;
  const team = principal % TEAMS;
  const principalId = `principal-${principal}`;
  const chain = policyChain(team, principalId, policies);
  const eventId = uuidv7(now.getTime(), at);
  const inputTokens = 200 + (at % 1_800);
  const outputTokens = 50 + (at % 400);
  const attribution = {
    user: `user-${hasNewUsers ? at : principal}`,
    team: `team-${team}`,
    project: `project-${team}`,
  };
  const fields = {
    eventId,
    requestId: `req_${eventId}`,
    keyId: `key_${principal}_${hasNewUsers ? 0 : Math.floor(at / PRINCIPALS) % KEYS_PER_PRINCIPAL}`,
    principalId,
    model: MODELS[principal % MODELS.length] ?? MODELS[0] ?? '',
    costNanoUsd: BigInt(inputTokens * 1_250 + outputTokens * 10_000),
  };
  const event = create(UsageEventSchema, {
    ...fields,
    ...CONSTANT_FIELDS,
    buckets: chain.map((bucket) => ({
      ...bucket,
      counterVersion: 1,
      windowStartMs: BigInt(windowStart.getTime()),
    })),
    modelRequested: fields.model,
    usage: { input: inputTokens, output: outputTokens },
    streamed: at % 2 === 0,
    admittedAtMs: BigInt(now.getTime()),
    settledAtMs: BigInt(now.getTime()),
    attribution,
    responseId: `chatcmpl-${at}`,
  });
  const [governing] = chain;
  return {
    ...fields,
    shard: usageShard(principalId),
    bytes: toBinary(UsageEventSchema, event),
    policyId: governing.policyId,
    buckets: countedBuckets(chain, principalId, windowStart),
    inputTokens,
    outputTokens,
    at: now,
    attribution: JSON.stringify(attribution),
  };
}

const CONSTANT_FIELDS = {
  connectorId: 'connector_1',
  priceVersion: 1,
  priceSource: PriceSource.CATALOG,
  outcome: Outcome.SUCCESS,
  httpStatus: 200,
  firstByteUs: 300_000,
  durationUs: 900_000,
  attempt: 1,
  modelAttempt: 1,
} as const;

/** The governing policy and its parents, each with the subject that it counts. */
function policyChain(
  team: number,
  principalId: string,
  policies: GeneratedKind['policies'],
): readonly [PolicySubject, ...PolicySubject[]] {
  if (policies === 'the company alone') return [{ policyId: 'policy_company', subject: 'policy' }];
  if (policies) return [{ policyId: `policy_of_${principalId}`, subject: 'policy' }];
  return [
    { policyId: `policy_team_${team}`, subject: `principal:${principalId}` },
    { policyId: `policy_department_${team % DEPARTMENTS}`, subject: 'policy' },
  ];
}

type PolicySubject = Pick<GeneratedBucket, 'policyId' | 'subject'>;

/** The buckets that the ledger counts an event in: those of the policies, and the principal's own below each policy. */
function countedBuckets(
  chain: ReturnType<typeof policyChain>,
  principalId: string,
  windowStart: Date,
): GeneratedBucket[] {
  const counted = [
    ...chain,
    ...chain.map(({ policyId }) => ({ policyId, subject: `principal:${principalId}` })),
  ].map((bucket) => ({
    ...bucket,
    key: `${bucket.policyId}/1/${windowStart.getTime()}/${bucket.subject}`,
    windowStart,
  }));
  const unique = [...new Map(counted.map((bucket) => [bucket.key, bucket])).values()];
  return unique.toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

/** https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7, with a sequence number instead of random bits. */
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
