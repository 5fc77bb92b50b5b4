import {
  MAX_COST_NANO_USD,
  MAX_TOKENS,
  Outcome,
  PriceSource,
  type UsageEventFields,
} from '@weighbridge/contracts';
import { atMost, checkText, id, MAX_INTEGER, time } from './checks.ts';
import type { EventAttribution, EventPayer } from './eventParts.ts';
import type { EventOrigin, IdRange, LedgerEvent } from './usage.ts';

const MAX_SMALLINT = 32_767;
const MAX_HTTP_STATUS = 999;
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/**
 * An event as the ledger keeps it. Throws, saying why, on what the ledger could not take or should not: it is checked
 * here, before any SQL, so that one bad event never holds up the others.
 */
export function ledgerEvent(
  event: UsageEventFields,
  payer: EventPayer,
  { attribution, workloadType }: EventAttribution,
  origin: EventOrigin | undefined,
  ids: IdRange,
): LedgerEvent {
  checkId(event.eventId, ids);
  checkText('request_id', event.requestId);
  checkText('response_id', event.responseId);
  if (!event.usage) throw new Error('usage is missing');
  if (event.costNanoUsd < 0n) throw new Error('the cost is negative');
  if (event.costNanoUsd > MAX_COST_NANO_USD) throw new Error('the cost is above a million dollars');
  const { input, cacheRead, cacheWrite, cacheWrite1h, output } = event.usage;
  atMost(MAX_TOKENS, 'the number of tokens', input + cacheRead + cacheWrite + cacheWrite1h + output);
  return {
    buckets: payer.buckets,
    workloadType,
    row: {
      event_id: event.eventId,
      request_id: id('request_id', event.requestId),
      attempt: ordinal('attempt', event.attempt),
      model_attempt: ordinal('model_attempt', event.modelAttempt),
      key_id: payer.key_id,
      principal_id: payer.principal_id,
      policy_id: payer.policy_id,
      model_requested: payer.model_requested,
      model: payer.model,
      connector_id: payer.connector_id,
      input_tokens: input,
      cache_read_tokens: cacheRead,
      cache_write_tokens: cacheWrite,
      cache_write_1h_tokens: cacheWrite1h,
      output_tokens: output,
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
      attribution,
      response_id: event.responseId,
      producer_id: origin?.producerId ?? null,
      epoch: origin?.epoch ?? null,
      shard: origin?.shard ?? null,
      n: origin?.n ?? null,
    },
  };
}

/** A proxy of a later release may know more outcomes than this one. */
const OUTCOMES: Partial<Record<number, string>> = {
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

/** Counted from 1; a proxy that does not tell is taken to have tried once. */
function ordinal(name: string, value: number): number {
  return Math.max(1, atMost(MAX_SMALLINT, name, value));
}
