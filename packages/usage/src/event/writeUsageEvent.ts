import { create, toBinary } from '@bufbuild/protobuf';
import { type BucketRef, PriceSource, UsageEventSchema, usageShard } from '@weighbridge/contracts';
import {
  type Attribution,
  type NanoUsd,
  NO_ATTRIBUTION,
  type TokenUsage,
  totalTokens,
} from '@weighbridge/domain';
import { type AttemptCounts, type AttemptEnd, LIST_PRICE_DETAILS } from './attemptEnd.ts';
import { LIMIT_COUNTS_TAG, USAGE_EVENT_TAG as TAG, TOKEN_USAGE_TAG } from './fields.ts';
import { ProtoWriter } from './protoWriter.ts';
import { MAX_CLASS_TOKENS, MAX_COST_NANO_USD, MAX_TOKENS } from './usageLimits.ts';

/** What the ledger's columns hold: some 35 minutes. */
const MAX_MICROSECONDS = 2_147_483_647;
/** What an event's field holds. */
const MAX_UINT32 = 4_294_967_295;
/** No event gets near to what a message of the stream may hold: the other texts in it are bounded where they are read. */
const MAX_MODEL_LENGTH = 512;
/** The spool keeps 4,096 bytes free for the tail of an attempt. */
const MAX_RESPONSE_ID_BYTES = 1_024;

type BucketField = 'policyId' | 'counterVersion' | 'subject' | 'windowStartMs';

/** The key that pays, as events name it. */
interface PayingKey {
  readonly id: string;
  readonly principalId: string;
  readonly teamId: string;
  /** With the counters that the request was admitted on, the governing policy's first. */
  readonly policies: readonly { readonly bucket: Pick<BucketRef, BucketField> }[];
}

/** What the usage events of one request have in common. */
export interface BilledRequest {
  readonly requestId: string;
  readonly key: PayingKey;
  readonly attribution: Attribution;
  readonly modelRequested: string;
  readonly streamed: boolean;
  readonly admittedAtMs: number;
}

/** What sets one attempt apart from the others of its request. */
interface AttemptStart {
  readonly eventId: string;
  readonly model: string;
  readonly connectorId: string;
  readonly priceVersion: number;
  readonly priceSource: 'catalog' | 'connector';
  /** Its number among the attempts of its request, and among those on the same model, both from 1. */
  readonly attempt: number;
  readonly modelAttempt: number;
  /** Nothing is sent: the response of an earlier request is sent again. */
  readonly isCacheHit?: boolean;
  /** What it reserves in buckets of requests and of tokens; undefined if it is in none. */
  readonly reservedCounts?: AttemptCounts | undefined;
}

/** An estimate, capped at what the ledger takes. */
export function cappedCost(cost: NanoUsd): NanoUsd {
  return cost < MAX_COST_NANO_USD ? cost : MAX_COST_NANO_USD;
}

/**
 * The part of an attempt's event that is known before it is sent. Its bytes and those of the tail, one after the other, are
 * the whole event: no field is in both. The fields of who pays are contiguous, so that the ledger can cache their decoding by their bytes.
 */
export function eventHead(request: BilledRequest, start: AttemptStart): Uint8Array {
  const head = new ProtoWriter()
    .text(TAG.eventId, start.eventId)
    .text(TAG.requestId, request.requestId)
    .raw(partOf(request.key).bytes)
    .text(TAG.modelRequested, request.modelRequested.slice(0, MAX_MODEL_LENGTH))
    .text(TAG.model, start.model)
    .text(TAG.connectorId, start.connectorId)
    .count(TAG.priceVersion, start.priceVersion)
    .count(TAG.priceSource, start.priceSource === 'connector' ? PriceSource.CONNECTOR : PriceSource.CATALOG)
    .flag(TAG.streamed, request.streamed)
    .count(TAG.admittedAtMs, request.admittedAtMs)
    .count(TAG.attempt, start.attempt)
    .count(TAG.modelAttempt, start.modelAttempt)
    .flag(TAG.cacheHit, start.isCacheHit ?? false)
    .raw(ofAttribution(request.attribution));
  if (start.reservedCounts) writeCounts(head, TAG.reservedCounts, start.reservedCounts);
  return head.finish();
}

function writeCounts(writer: ProtoWriter, tag: number, { requests, tokens }: AttemptCounts): void {
  writer
    .beginMessage(tag)
    .count(LIMIT_COUNTS_TAG.requests, requests)
    .count(LIMIT_COUNTS_TAG.tokens, tokens)
    .endMessage();
}

/** The shard of a key's events, in an epoch of so many. */
export function eventShard(key: PayingKey, shards: number): number {
  const part = partOf(key);
  if (part.shards !== shards) {
    part.shards = shards;
    part.shard = usageShard(key.principalId, shards);
  }
  return part.shard;
}

/** What all events of a key have in common: where they go, and their bytes that say who pays. */
interface KeyPart {
  /** Of a process's epoch; 0 until it is known. */
  shards: number;
  shard: number;
  readonly bytes: Uint8Array;
}

const keyParts = new WeakMap<PayingKey, KeyPart>();

/** Computed once for each key. Fields may stand in any order, so their bytes can be joined. */
function partOf(key: PayingKey): KeyPart {
  const known = keyParts.get(key);
  if (known) return known;
  const bytes = toBinary(
    UsageEventSchema,
    create(UsageEventSchema, {
      keyId: key.id,
      principalId: key.principalId,
      buckets: key.policies.map(({ bucket }) => bucket),
      teamId: key.teamId,
    }),
  );
  const part = { shards: 0, shard: 0, bytes };
  keyParts.set(key, part);
  return part;
}

/** The rest of it, known when the attempt is over. */
export function eventTail(end: AttemptEnd, now: Date): Uint8Array {
  const { dispatchedAt, firstByteAt } = end;
  const tokens = heldTokens(end.usage);
  const tail = new ProtoWriter()
    .beginMessage(TAG.usage)
    .count(TOKEN_USAGE_TAG.input, tokens.inputTokens)
    .count(TOKEN_USAGE_TAG.cacheRead, tokens.cacheReadTokens)
    .count(TOKEN_USAGE_TAG.cacheWrite, tokens.cacheWriteTokens)
    .count(TOKEN_USAGE_TAG.cacheWrite1h, tokens.cacheWrite1hTokens)
    .count(TOKEN_USAGE_TAG.output, tokens.outputTokens)
    .count(TOKEN_USAGE_TAG.inputAudio, tokens.inputAudioTokens)
    .count(TOKEN_USAGE_TAG.inputImage, tokens.inputImageTokens)
    .count(TOKEN_USAGE_TAG.cacheReadAudio, tokens.cacheReadAudioTokens)
    .count(TOKEN_USAGE_TAG.outputAudio, tokens.outputAudioTokens)
    .count(TOKEN_USAGE_TAG.outputImage, tokens.outputImageTokens)
    .endMessage()
    .bigint(TAG.costNanoUsd, end.costNanoUsd)
    .flag(TAG.estimated, end.estimated)
    .count(TAG.outcome, end.outcome)
    .count(TAG.httpStatus, end.status)
    .count(TAG.settledAtMs, now.getTime())
    .optionalCount(
      TAG.firstByteUs,
      firstByteAt === undefined ? undefined : microseconds(dispatchedAt, firstByteAt),
    )
    .count(TAG.durationUs, microseconds(dispatchedAt, performance.now()))
    .text(TAG.responseId, Buffer.byteLength(end.responseId) <= MAX_RESPONSE_ID_BYTES ? end.responseId : '')
    .raw(encodedDetails(end));
  if (end.counts) writeCounts(tail, TAG.counts, end.counts);
  return tail.finish();
}

const NO_DETAILS = new Uint8Array();
/** Bounds of the details, so that the tail fits the space that the spool reserves for it. */
const MAX_DETAILS = 8;
const MAX_DETAIL_LENGTH = 48;
/** With how many more there are. */
const MAX_DROPPED = 9;
const MAX_DROPPED_LENGTH = 96;
/** With how many more there are. */
const MAX_SKIPPED = 4;

/** Most requests go out as they are, and are served at the list price of text: they have no details. */
function encodedDetails({ details, dropped, skipped }: AttemptEnd): Uint8Array {
  if (details === LIST_PRICE_DETAILS && dropped.length === 0 && skipped.length === 0) return NO_DETAILS;
  const { service, toolUses, unpriced, pricedModel } = details;
  const uses = Object.entries(toolUses).slice(0, MAX_DETAILS);
  return toBinary(
    UsageEventSchema,
    create(UsageEventSchema, {
      details: {
        ...service,
        toolUses: Object.fromEntries(
          uses.map(([tool, count]) => [detailName(tool), Math.min(count, MAX_TOKENS)]),
        ),
        unpriced: unpriced.slice(0, MAX_DETAILS).map(detailName),
        pricedModel: printable(pricedModel.slice(0, MAX_MODEL_LENGTH)),
        dropped: dropped.slice(0, MAX_DROPPED).map((field) => printable(field.slice(0, MAX_DROPPED_LENGTH))),
        skipped: skipped.slice(0, MAX_SKIPPED).map((model) => printable(model.slice(0, MAX_DROPPED_LENGTH))),
      },
    }),
  );
}

/** A vendor chose the name. */
function detailName(name: string): string {
  return printable(name.slice(0, MAX_DETAIL_LENGTH));
}

function printable(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, '?');
}

const NO_ATTRIBUTION_BYTES = toBinary(UsageEventSchema, create(UsageEventSchema, { attribution: {} }));

function ofAttribution(attribution: Attribution): Uint8Array {
  if (attribution === NO_ATTRIBUTION) return NO_ATTRIBUTION_BYTES;
  const { session, workloadType, labels, ...names } = attribution;
  return toBinary(
    UsageEventSchema,
    create(UsageEventSchema, {
      attribution: {
        ...names,
        labels: { ...labels },
        ...(session && { sessionId: session.text, sessionSha256: session.sha256 }),
        ...(workloadType && { workloadType: workloadType.text, workloadTypeSha256: workloadType.sha256 }),
      },
    }),
  );
}

/** A cost, as far as it says something: one beyond what the ledger takes is cut just above that. */
export function cutCost(cost: NanoUsd): NanoUsd {
  return cost <= MAX_COST_NANO_USD ? cost : MAX_COST_NANO_USD + 1n;
}

/** Whether the ledger does not take it: metering puts it in quarantine, and the budget is charged its reservation. */
export function isBeyondLedger({ usage, costNanoUsd }: Pick<AttemptEnd, 'usage' | 'costNanoUsd'>): boolean {
  if (costNanoUsd > MAX_COST_NANO_USD) return true;
  const total = totalTokens(usage);
  // Almost all attempts have fewer tokens than one class may have.
  if (total <= MAX_CLASS_TOKENS) return false;
  return total > MAX_TOKENS || Object.values(usage).some((tokens) => tokens > MAX_CLASS_TOKENS);
}

/** As the event's fields hold it: what is cut is far beyond what the ledger takes. */
function heldTokens(usage: TokenUsage): TokenUsage {
  if (totalTokens(usage) <= MAX_TOKENS) return usage;
  const held = (tokens: number) => Math.min(tokens, MAX_UINT32);
  return {
    inputTokens: held(usage.inputTokens),
    cacheReadTokens: held(usage.cacheReadTokens),
    cacheWriteTokens: held(usage.cacheWriteTokens),
    cacheWrite1hTokens: held(usage.cacheWrite1hTokens),
    outputTokens: held(usage.outputTokens),
    inputAudioTokens: held(usage.inputAudioTokens),
    inputImageTokens: held(usage.inputImageTokens),
    cacheReadAudioTokens: held(usage.cacheReadAudioTokens),
    outputAudioTokens: held(usage.outputAudioTokens),
    outputImageTokens: held(usage.outputImageTokens),
  };
}

function microseconds(from: number, to: number): number {
  return Math.min(MAX_MICROSECONDS, Math.max(0, Math.round((to - from) * 1_000)));
}
