import { fromBinary } from '@bufbuild/protobuf';
import {
  type LimitCounts,
  type TokenUsage,
  type UsageDetails,
  UsageDetailsSchema,
  type UsageEvent,
  UsageEventSchema,
} from '@weighbridge/contracts';
import { byTag, LIMIT_COUNTS_TAG, TOKEN_USAGE_TAG, USAGE_EVENT_TAG } from './fields.ts';
import { ProtoReader, UNSUPPORTED_ENCODING } from './protoReader.ts';

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

export type TokenUsageFields = Pick<
  TokenUsage,
  | 'input'
  | 'cacheRead'
  | 'cacheWrite'
  | 'cacheWrite1h'
  | 'output'
  | 'inputAudio'
  | 'inputImage'
  | 'cacheReadAudio'
  | 'outputAudio'
  | 'outputImage'
>;

type UsageDetailsFields = Pick<
  UsageDetails,
  'serviceTier' | 'speed' | 'geography' | 'toolUses' | 'unpriced' | 'pricedModel' | 'dropped' | 'skipped'
>;

type LimitCountsFields = Pick<LimitCounts, 'requests' | 'tokens'>;

/** The fields of a usage event other than its payer and its attribution. */
export interface UsageEventFields
  extends Pick<
    UsageEvent,
    | 'eventId'
    | 'requestId'
    | 'costNanoUsd'
    | 'priceVersion'
    | 'estimated'
    | 'httpStatus'
    | 'streamed'
    | 'durationUs'
    | 'responseId'
    | 'attempt'
    | 'modelAttempt'
    | 'cacheHit'
  > {
  readonly usage?: TokenUsageFields | undefined;
  readonly details?: UsageDetailsFields | undefined;
  readonly reservedCounts?: LimitCountsFields | undefined;
  readonly counts?: LimitCountsFields | undefined;
  readonly outcome: number;
  readonly priceSource: number;
  readonly admittedAtMs: bigint | number;
  readonly settledAtMs: bigint | number;
  readonly firstByteUs?: number | undefined;
}

/**
 * A usage event, of which two parts are left encoded, as ranges of `bytes`: they are equal in many events, so a reader can
 * cache what it decodes. The payer's range holds its fields with their tags, the attribution's the encoded message.
 */
export interface EncodedUsageEvent extends UsageEventFields {
  readonly bytes: Buffer;
  readonly payerStart: number;
  readonly payerEnd: number;
  /** An empty range if there is no attribution. */
  readonly attributionStart: number;
  readonly attributionEnd: number;
}

type FieldReader = (reader: ProtoReader, event: Writable<EncodedUsageEvent>) => void;

const READERS = byTag<keyof typeof USAGE_EVENT_TAG, FieldReader>(USAGE_EVENT_TAG, {
  eventId: (reader, event) => {
    event.eventId = reader.text();
  },
  requestId: (reader, event) => {
    event.requestId = reader.text();
  },
  keyId: skipPayerField,
  principalId: skipPayerField,
  buckets: skipPayerField,
  modelRequested: skipPayerField,
  model: skipPayerField,
  connectorId: skipPayerField,
  usage: (reader, event) => {
    event.usage = readTokens(reader);
  },
  costNanoUsd: (reader, event) => {
    event.costNanoUsd = BigInt(reader.varint());
  },
  priceVersion: (reader, event) => {
    event.priceVersion = reader.uint32();
  },
  estimated: (reader, event) => {
    event.estimated = reader.bool();
  },
  outcome: (reader, event) => {
    event.outcome = reader.enumValue();
  },
  httpStatus: (reader, event) => {
    event.httpStatus = reader.uint32();
  },
  streamed: (reader, event) => {
    event.streamed = reader.bool();
  },
  admittedAtMs: (reader, event) => {
    event.admittedAtMs = reader.varint();
  },
  settledAtMs: (reader, event) => {
    event.settledAtMs = reader.varint();
  },
  firstByteUs: (reader, event) => {
    event.firstByteUs = reader.uint32();
  },
  durationUs: (reader, event) => {
    event.durationUs = reader.uint32();
  },
  attribution: (reader, event) => {
    event.attributionEnd = reader.endOfBytes();
    event.attributionStart = reader.at;
    reader.at = event.attributionEnd;
  },
  responseId: (reader, event) => {
    event.responseId = reader.text();
  },
  priceSource: (reader, event) => {
    event.priceSource = reader.enumValue();
  },
  attempt: (reader, event) => {
    event.attempt = reader.uint32();
  },
  modelAttempt: (reader, event) => {
    event.modelAttempt = reader.uint32();
  },
  cacheHit: (reader, event) => {
    event.cacheHit = reader.bool();
  },
  teamId: skipPayerField,
  // Few events have it, so the library may read it.
  details: (reader, event) => {
    event.details = fromBinary(UsageDetailsSchema, reader.subarray());
  },
  reservedCounts: (reader, event) => {
    event.reservedCounts = readCounts(reader);
  },
  counts: (reader, event) => {
    event.counts = readCounts(reader);
  },
});

function skipPayerField(reader: ProtoReader): void {
  reader.at = reader.endOfBytes();
}

/** Each field is a bit in a set of 32. A later release may have higher ones, which are skipped. */
const LAST_FIELD = Math.max(...UsageEventSchema.fields.map(({ number }) => number));
const BUCKETS = fieldSet('buckets');
const PAYER = fieldSet(
  ...(['keyId', 'principalId', 'buckets', 'teamId', 'modelRequested', 'model', 'connectorId'] as const),
);

function fieldSet(...names: (keyof typeof UsageEventSchema.field)[]): number {
  return names.reduce((set, name) => set | (1 << UsageEventSchema.field[name].number), 0);
}

/**
 * Reads an event in place, for a fraction of the library's cost; undefined if the library has to read it, or reject it. Each
 * field may be there once (only buckets may repeat), in any order; those of the payer have to be adjacent, as proxies write
 * them.
 */
export function readUsageEvent(payload: Uint8Array): EncodedUsageEvent | undefined {
  try {
    return readFields(new ProtoReader(payload));
  } catch {
    return undefined;
  }
}

function readFields(reader: ProtoReader): EncodedUsageEvent {
  const event = emptyEvent(reader.bytes);
  let seen = 0;
  while (reader.at < reader.end) {
    const start = reader.at;
    const tag = reader.tag();
    const field = tag >>> 3;
    if (field > LAST_FIELD) {
      reader.skip(tag);
      continue;
    }
    const bit = 1 << field;
    const read = READERS[tag];
    if (!read || (seen & bit & ~BUCKETS) !== 0) throw UNSUPPORTED_ENCODING;
    read(reader, event);
    if ((bit & PAYER) !== 0) {
      if ((seen & PAYER) === 0) event.payerStart = start;
      else if (start !== event.payerEnd) throw UNSUPPORTED_ENCODING;
      event.payerEnd = reader.at;
    }
    seen |= bit;
  }
  return event;
}

type TokenReader = (reader: ProtoReader, tokens: Writable<TokenUsageFields>) => void;

const TOKEN_READERS = byTag<keyof typeof TOKEN_USAGE_TAG, TokenReader>(TOKEN_USAGE_TAG, {
  input: (reader, tokens) => {
    tokens.input = reader.uint32();
  },
  cacheRead: (reader, tokens) => {
    tokens.cacheRead = reader.uint32();
  },
  cacheWrite: (reader, tokens) => {
    tokens.cacheWrite = reader.uint32();
  },
  cacheWrite1h: (reader, tokens) => {
    tokens.cacheWrite1h = reader.uint32();
  },
  output: (reader, tokens) => {
    tokens.output = reader.uint32();
  },
  inputAudio: (reader, tokens) => {
    tokens.inputAudio = reader.uint32();
  },
  inputImage: (reader, tokens) => {
    tokens.inputImage = reader.uint32();
  },
  cacheReadAudio: (reader, tokens) => {
    tokens.cacheReadAudio = reader.uint32();
  },
  outputAudio: (reader, tokens) => {
    tokens.outputAudio = reader.uint32();
  },
  outputImage: (reader, tokens) => {
    tokens.outputImage = reader.uint32();
  },
});

function readCounts(reader: ProtoReader): LimitCountsFields {
  const end = reader.endOfBytes();
  const counts = { requests: 0, tokens: 0n };
  let last = 0;
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag <= last) throw UNSUPPORTED_ENCODING;
    if (tag === LIMIT_COUNTS_TAG.requests) counts.requests = reader.uint32();
    else if (tag === LIMIT_COUNTS_TAG.tokens) counts.tokens = BigInt(reader.varint());
    else throw UNSUPPORTED_ENCODING;
    last = tag;
  }
  if (reader.at !== end) throw UNSUPPORTED_ENCODING;
  return counts;
}

function readTokens(reader: ProtoReader): TokenUsageFields {
  const end = reader.endOfBytes();
  const tokens = {
    input: 0,
    cacheRead: 0,
    cacheWrite: 0,
    cacheWrite1h: 0,
    output: 0,
    inputAudio: 0,
    inputImage: 0,
    cacheReadAudio: 0,
    outputAudio: 0,
    outputImage: 0,
  };
  let last = 0;
  while (reader.at < end) {
    const tag = reader.tag();
    const read = TOKEN_READERS[tag];
    if (!read || tag <= last) throw UNSUPPORTED_ENCODING;
    read(reader, tokens);
    last = tag;
  }
  if (reader.at !== end) throw UNSUPPORTED_ENCODING;
  return tokens;
}

/** The defaults of absent fields. */
function emptyEvent(bytes: Buffer): Writable<EncodedUsageEvent> {
  return {
    eventId: '',
    requestId: '',
    usage: undefined,
    details: undefined,
    costNanoUsd: 0n,
    priceVersion: 0,
    estimated: false,
    outcome: 0,
    httpStatus: 0,
    streamed: false,
    admittedAtMs: 0,
    settledAtMs: 0,
    firstByteUs: undefined,
    durationUs: 0,
    responseId: '',
    priceSource: 0,
    attempt: 0,
    modelAttempt: 0,
    cacheHit: false,
    bytes,
    payerStart: 0,
    payerEnd: 0,
    attributionStart: 0,
    attributionEnd: 0,
  };
}
