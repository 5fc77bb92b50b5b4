import type { Counts } from '@weighbridge/budget';
import { Outcome, PriceSource } from '@weighbridge/contracts';
import {
  MAX_CLASS_TOKENS,
  MAX_COST_NANO_USD,
  MAX_TOKENS,
  type TokenUsageFields,
  type UsageEventFields,
} from '@weighbridge/usage';
import { detailsColumn } from './billingDetails.ts';
import type { EventAttribution, EventPayer } from './eventParts.ts';
import type { EventOrigin, IdRange, LedgerEvent } from './usage.ts';
import { atMost, checkedId, checkedTime, checkText, MAX_INTEGER } from './validation.ts';

const MAX_SMALLINT = 32_767;
const MAX_HTTP_STATUS = 999;
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/**
 * An event as the ledger stores it. Throws with the reason if the ledger can't or should not store it. Events are validated
 * before any SQL, so that an invalid event never holds up others.
 */
export function ledgerEvent(
  event: UsageEventFields,
  payer: EventPayer,
  { attribution, workloadType }: EventAttribution,
  origin: EventOrigin | undefined,
  ids: IdRange,
  payload?: Uint8Array,
): LedgerEvent {
  checkId(event.eventId, ids);
  checkText('request_id', event.requestId);
  checkText('response_id', event.responseId);
  if (!event.usage) throw new Error('usage is missing');
  if (event.costNanoUsd < 0n) throw new Error('the cost is negative');
  if (event.costNanoUsd > MAX_COST_NANO_USD) throw new Error('the cost exceeds one million dollars');
  checkTokens(event.usage);
  const { input, cacheRead, cacheWrite, cacheWrite1h, output } = event.usage;
  const { inputAudio, inputImage, cacheReadAudio, outputAudio, outputImage } = event.usage;
  const counts = checkedCounts(event);
  const media = inputAudio + inputImage + cacheReadAudio + outputAudio + outputImage;
  return {
    buckets: payer.buckets,
    counts,
    workloadType,
    payload,
    row: {
      event_id: event.eventId,
      request_id: checkedId('request_id', event.requestId),
      attempt: ordinal('attempt', event.attempt),
      model_attempt: ordinal('model_attempt', event.modelAttempt),
      key_id: payer.key_id,
      principal_id: payer.principal_id,
      policy_id: payer.policy_id,
      model_requested: payer.model_requested,
      model: payer.model,
      connector_id: payer.connector_id,
      team_id: payer.team_id ?? null,
      // With the other modalities, so that the columns add up to the vendor's total.
      input_tokens: input + inputAudio + inputImage,
      cache_read_tokens: cacheRead + cacheReadAudio,
      cache_write_tokens: cacheWrite,
      cache_write_1h_tokens: cacheWrite1h,
      output_tokens: output + outputAudio + outputImage,
      // Most events have neither.
      details:
        event.details || counts || media > 0 ? detailsColumn(event.usage, event.details, counts) : null,
      cost_nano_usd: event.costNanoUsd,
      price_version: atMost(MAX_INTEGER, 'price_version', event.priceVersion),
      price_source: event.priceSource === PriceSource.CONNECTOR ? 'connector' : 'catalog',
      estimated: event.estimated,
      outcome: OUTCOMES[event.outcome] ?? 'unknown',
      http_status: atMost(MAX_HTTP_STATUS, 'http_status', event.httpStatus),
      streamed: event.streamed,
      cache_hit: event.cacheHit,
      admitted_at: checkedTime('admitted_at', event.admittedAtMs),
      settled_at: checkedTime('settled_at', event.settledAtMs),
      // The column holds at most 35 minutes.
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

/** What is reserved counts if no end says what was used. */
function checkedCounts({ counts, reservedCounts }: UsageEventFields): Counts | undefined {
  const given = counts ?? reservedCounts;
  if (!given) return undefined;
  if (given.tokens > MAX_TOKENS) throw new Error(`the counted tokens exceed ${MAX_TOKENS}`);
  return {
    requests: BigInt(atMost(MAX_SMALLINT, 'the counted requests', given.requests)),
    tokens: given.tokens,
  };
}

function checkTokens(usage: TokenUsageFields): void {
  const { input, cacheRead, cacheWrite, cacheWrite1h, output } = usage;
  const { inputAudio, inputImage, cacheReadAudio, outputAudio, outputImage } = usage;
  const text = input + cacheRead + cacheWrite + cacheWrite1h + output;
  const media = inputAudio + inputImage + cacheReadAudio + outputAudio + outputImage;
  // Almost all events have fewer tokens than one class may have.
  if (text + media <= MAX_CLASS_TOKENS) return;
  atMost(MAX_CLASS_TOKENS, 'tokens.input', input);
  atMost(MAX_CLASS_TOKENS, 'tokens.cache_read', cacheRead);
  atMost(MAX_CLASS_TOKENS, 'tokens.cache_write', cacheWrite);
  atMost(MAX_CLASS_TOKENS, 'tokens.cache_write_1h', cacheWrite1h);
  atMost(MAX_CLASS_TOKENS, 'tokens.output', output);
  atMost(MAX_CLASS_TOKENS, 'tokens.input_audio', inputAudio);
  atMost(MAX_CLASS_TOKENS, 'tokens.input_image', inputImage);
  atMost(MAX_CLASS_TOKENS, 'tokens.cache_read_audio', cacheReadAudio);
  atMost(MAX_CLASS_TOKENS, 'tokens.output_audio', outputAudio);
  atMost(MAX_CLASS_TOKENS, 'tokens.output_image', outputImage);
  atMost(MAX_TOKENS, 'the number of tokens', text + media);
}

/** A proxy of a later release may send outcomes that are not listed. */
const OUTCOMES: Partial<Record<number, string>> = {
  [Outcome.UNSPECIFIED]: 'unknown',
  [Outcome.SUCCESS]: 'success',
  [Outcome.UPSTREAM_ERROR]: 'upstream_error',
  [Outcome.UPSTREAM_UNREACHABLE]: 'upstream_unreachable',
  [Outcome.INTERRUPTED]: 'interrupted',
  [Outcome.CLIENT_GONE]: 'client_gone',
};

/** The time in the id selects the partition, which must exist. */
function checkId(eventId: string, { from, before }: IdRange): void {
  if (!UUID_V7.test(eventId)) throw new Error('event_id is not a UUIDv7');
  const ms = Number.parseInt(eventId.slice(0, 8) + eventId.slice(9, 13), 16);
  if (ms < from.getTime()) {
    throw new Error(`the time of event_id is before ${from.toISOString()}, the start of the ledger`);
  }
  if (ms >= before.getTime()) {
    throw new Error(`the time of event_id is not before ${before.toISOString()}, the end of the ledger`);
  }
}

/** Counted from 1; 1 if the proxy sent none. */
function ordinal(name: string, value: number): number {
  return Math.max(1, atMost(MAX_SMALLINT, name, value));
}
