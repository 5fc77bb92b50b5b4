import {
  type Attribution,
  MAX_COST_NANO_USD,
  MAX_TOKENS,
  Outcome,
  PriceSource,
  type TokenUsage,
  type UsageEvent,
} from '@weighbridge/contracts';
import { workloadTypeKey } from '@weighbridge/domain';
import type { BucketRef } from './buckets.ts';
import type { IdRange } from './partitions.ts';
import type { EventOrigin, LedgerEvent, WorkloadType } from './usage.ts';

/** Of what stands in an index, in UTF-8: an entry takes 2,700. */
const MAX_ID_BYTES = 1_000;
const MAX_BUCKETS = 64;
const MAX_SMALLINT = 32_767;
const MAX_INTEGER = 2_147_483_647;
const MAX_HTTP_STATUS = 999;
const SHA256_BYTES = 32;
/** The last millisecond that is written with four digits for the year. */
const MAX_TIME_MS = 253_402_300_799_999n;
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/**
 * An event as the ledger keeps it. Throws, saying why, on what the ledger could not take or should not: it is checked
 * here, before any SQL, so that one bad event never holds up the others.
 */
export function ledgerEvent(event: UsageEvent, origin: EventOrigin | undefined, ids: IdRange): LedgerEvent {
  checkId(event.eventId, ids);
  checkTexts(event);
  if (!event.usage) throw new Error('usage is missing');
  if (event.costNanoUsd < 0n) throw new Error('the cost is negative');
  if (event.costNanoUsd > MAX_COST_NANO_USD) throw new Error('the cost is above a million dollars');
  const buckets = bucketsOf(event);
  const [governing] = buckets;
  if (!governing) throw new Error('no bucket is named');
  return {
    buckets,
    workloadType: event.attribution && workloadTypeOf(event.attribution),
    row: {
      event_id: event.eventId,
      request_id: id('request_id', event.requestId),
      attempt: ordinal('attempt', event.attempt),
      model_attempt: ordinal('model_attempt', event.modelAttempt),
      key_id: id('key_id', event.keyId),
      principal_id: id('principal_id', event.principalId),
      policy_id: governing.policyId,
      model_requested: event.modelRequested,
      model: id('model', event.model),
      connector_id: event.connectorId,
      ...tokensOf(event.usage),
      cost_nano_usd: event.costNanoUsd,
      price_version: atMost(MAX_INTEGER, 'price_version', event.priceVersion),
      price_source: event.priceSource === PriceSource.CONNECTOR ? 'connector' : 'catalog',
      estimated: event.estimated,
      outcome: OUTCOMES[event.outcome] ?? 'unknown',
      http_status: atMost(MAX_HTTP_STATUS, 'http_status', event.httpStatus),
      streamed: event.streamed,
      cache_hit: event.cacheHit,
      admitted_at: time('admitted_at', event.admittedAtMs),
      settled_at: time('settled_at', event.settledAtMs),
      // Half an hour and more is as long as the column can tell.
      first_byte_us: event.firstByteUs === undefined ? null : Math.min(event.firstByteUs, MAX_INTEGER),
      duration_us: Math.min(event.durationUs, MAX_INTEGER),
      attribution: JSON.stringify(event.attribution ? attributionOf(event.attribution) : {}),
      response_id: event.responseId,
      producer_id: origin?.producerId ?? null,
      epoch: origin?.epoch ?? null,
      shard: origin?.shard ?? null,
      n: origin?.n ?? null,
    },
  };
}

/** A proxy of a later release may know more outcomes than this one. */
const OUTCOMES: Partial<Record<Outcome, string>> = {
  [Outcome.UNSPECIFIED]: 'unknown',
  [Outcome.SUCCESS]: 'success',
  [Outcome.UPSTREAM_ERROR]: 'upstream_error',
  [Outcome.UPSTREAM_UNREACHABLE]: 'upstream_unreachable',
  [Outcome.INTERRUPTED]: 'interrupted',
  [Outcome.CLIENT_GONE]: 'client_gone',
};

/** The time in the id decides where the event is kept: there has to be such a place. */
function checkId(eventId: string, { from, before }: IdRange): void {
  if (!UUID_V7.test(eventId)) throw new Error('event_id is not a UUIDv7');
  const ms = Number.parseInt(eventId.slice(0, 8) + eventId.slice(9, 13), 16);
  if (ms < from.getTime()) {
    throw new Error(`event_id is from before ${from.toISOString()}, where the ledger begins`);
  }
  if (ms >= before.getTime()) {
    throw new Error(`event_id is from after ${before.toISOString()}, where the ledger ends`);
  }
}

function bucketsOf({ buckets }: UsageEvent): BucketRef[] {
  atMost(MAX_BUCKETS, 'the number of buckets', buckets.length);
  return buckets.map(({ policyId, counterVersion, subject, windowStartMs }) => ({
    policyId: id('policy_id', policyId),
    counterVersion: atMost(MAX_INTEGER, 'counter_version', counterVersion),
    subject: id('subject', subject),
    windowStart: time('window_start', windowStartMs),
  }));
}

function tokensOf({ input, cacheRead, cacheWrite, cacheWrite1h, output }: TokenUsage) {
  atMost(MAX_TOKENS, 'the number of tokens', input + cacheRead + cacheWrite + cacheWrite1h + output);
  return {
    input_tokens: input,
    cache_read_tokens: cacheRead,
    cache_write_tokens: cacheWrite,
    cache_write_1h_tokens: cacheWrite1h,
    output_tokens: output,
  };
}

function id(name: string, text: string): string {
  if (text === '') throw new Error(`${name} is empty`);
  // No character takes more than three bytes for each of its units.
  if (text.length * 3 > MAX_ID_BYTES && Buffer.byteLength(text) > MAX_ID_BYTES) {
    throw new Error(`${name} is longer than ${MAX_ID_BYTES} bytes`);
  }
  return text;
}

function atMost(most: number, name: string, value: number): number {
  if (value > most) throw new Error(`${name} is above ${most}`);
  return value;
}

/** Counted from 1; a proxy that does not tell is taken to have tried once. */
function ordinal(name: string, value: number): number {
  return Math.max(1, atMost(MAX_SMALLINT, name, value));
}

function time(name: string, ms: bigint): Date {
  if (ms < 0n || ms > MAX_TIME_MS) throw new Error(`${name} is out of range`);
  return new Date(Number(ms));
}

/** Postgres keeps no NUL in a text. Halves of surrogate pairs, the other thing that it refuses, no decoder lets in. */
function checkText(name: string, text: string | undefined): void {
  if (text?.includes('\0')) throw new Error(`${name} holds what no database keeps as text`);
}

function checkTexts(event: UsageEvent): void {
  checkText('request_id', event.requestId);
  checkText('key_id', event.keyId);
  checkText('principal_id', event.principalId);
  checkText('model_requested', event.modelRequested);
  checkText('model', event.model);
  checkText('connector_id', event.connectorId);
  checkText('response_id', event.responseId);
  for (const { policyId, subject } of event.buckets) {
    checkText('a bucket', policyId);
    checkText('a bucket', subject);
  }
  if (event.attribution) checkAttribution(event.attribution);
}

function checkAttribution(attribution: Attribution): void {
  const { user, team, project, env, namespace, workload, pod, sessionId, workloadType } = attribution;
  for (const text of [user, team, project, env, namespace, workload, pod, sessionId, workloadType]) {
    checkText('attribution', text);
  }
  for (const [name, text] of Object.entries(attribution.labels)) {
    // The names of labels are text of the caller's: not fit for a reason.
    checkText('a label', name);
    checkText('a label', text);
  }
  for (const hash of [attribution.sessionSha256, attribution.workloadTypeSha256]) {
    if (hash && hash.length !== SHA256_BYTES) throw new Error('a SHA-256 has not 32 bytes');
  }
}

function workloadTypeOf({
  workloadType: text = '',
  workloadTypeSha256,
}: Attribution): WorkloadType | undefined {
  if (!workloadTypeSha256) return undefined;
  return { key: workloadTypeKey({ text, sha256: workloadTypeSha256 }), name: text };
}

/** As it is shown and grouped by; a hash stands beside a value that may have been cut. */
function attributionOf(from: Attribution): Record<string, unknown> {
  const { user, team, project, env, namespace, workload, pod, sessionId, workloadType, labels } = from;
  const hex = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString('hex');
  return {
    user,
    team,
    project,
    env,
    namespace,
    workload,
    pod,
    session_id: sessionId,
    session_sha256: hex(from.sessionSha256),
    workload_type: workloadType,
    workload_type_sha256: hex(from.workloadTypeSha256),
    ...(Object.keys(labels).length > 0 && { labels }),
  };
}
