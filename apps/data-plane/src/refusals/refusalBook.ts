import { create, toBinary } from '@bufbuild/protobuf';
import type { RefusingCounter } from '@weighbridge/budget';
import { RefusedRequestSchema } from '@weighbridge/contracts';
import { type Attribution, newUuid } from '@weighbridge/domain';

/** A request that was refused. */
export interface RequestRefusal {
  readonly requestId: string;
  readonly keyId: string;
  readonly principalId: string;
  /** The team of its principal; empty or absent if it is in none. */
  readonly teamId?: string;
  /** The governing policy. */
  readonly policyId: string;
  readonly endpoint: string;
  readonly modelRequested: string;
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly attempts: number;
  readonly counter: RefusingCounter | undefined;
  /** Read only if the request gets a row. */
  readonly attribution: () => Attribution;
}

const MINUTE_MS = 60_000;
export const ROWS_PER_KEY_AND_MINUTE = 100;
/** A principal may have many keys. */
export const ROWS_PER_PRINCIPAL_AND_MINUTE = 300;
export const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/** What waits of one principal, so that no flood takes the place of others' rows. */
const MAX_WAITING_BYTES_OF_PRINCIPAL = MAX_WAITING_BYTES / 8;
/** Keys and principals of a minute; what others are refused is only in the metric. */
export const MAX_CALLERS = 10_000;
const MAX_MODEL = 256;
const MAX_MESSAGE = 512;
/** Of all labels of a row together, as names and values: the caller chooses them. */
const MAX_LABELS = 1_024;

/** What a key was refused in one minute. */
interface KeyMinute {
  readonly startMs: number;
  readonly refusal: RequestRefusal;
  rows: number;
  /** Those without a row that are not sent yet. */
  counts: Map<string, number>;
}

interface Row {
  readonly principalId: string;
  readonly bytes: Uint8Array;
}

/**
 * Collects refused requests until they are sent: a few rows of each key and minute, and a count of the rest. Everything in it is
 * bounded, and nothing of it is written to the disk: a flood of refused requests costs no more than the memory here.
 */
export class RefusalBook {
  #minute = 0;
  #keys = new Map<string, KeyMinute>();
  #principals = new Map<string, number>();
  /** Of earlier minutes too. */
  #counted = new Map<string, KeyMinute>();
  #rows: Row[] = [];
  #bytes = 0;
  readonly #bytesOf = new Map<string, number>();
  readonly #onDropped: (count: number) => void;

  /** `onDropped` gets the number of refusals that are neither in a row nor counted. */
  constructor(onDropped: (count: number) => void) {
    this.#onDropped = onDropped;
  }

  note(refusal: RequestRefusal, nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS) * MINUTE_MS;
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#keys = new Map();
      this.#principals = new Map();
    }
    const key = this.#keyOf(refusal);
    if (!key) {
      this.#onDropped(1);
      return;
    }
    const ofPrincipal = this.#principals.get(refusal.principalId) ?? 0;
    const mayHaveRow = key.rows < ROWS_PER_KEY_AND_MINUTE && ofPrincipal < ROWS_PER_PRINCIPAL_AND_MINUTE;
    if (mayHaveRow && this.#addRow(refusal, nowMs)) {
      key.rows++;
      this.#principals.set(refusal.principalId, ofPrincipal + 1);
    } else {
      this.#count(key, refusal);
    }
  }

  /** What is to be sent next, encoded; at most `maxRows` and about `maxBytes`. */
  take(maxRows: number, maxBytes: number): Uint8Array[] {
    const taken: Uint8Array[] = [];
    let bytes = 0;
    for (const row of this.#rows) {
      if (taken.length >= maxRows || bytes + row.bytes.length > maxBytes) break;
      taken.push(row.bytes);
      bytes += row.bytes.length;
      this.#account(row.principalId, -row.bytes.length);
    }
    this.#rows.splice(0, taken.length);
    for (const [id, counted] of this.#counted) {
      if (taken.length >= maxRows || bytes >= maxBytes) break;
      const encoded = encodeCounts(counted);
      taken.push(encoded);
      bytes += encoded.length;
      counted.counts = new Map();
      this.#counted.delete(id);
    }
    return taken;
  }

  get isEmpty(): boolean {
    return this.#rows.length === 0 && this.#counted.size === 0;
  }

  #keyOf(refusal: RequestRefusal): KeyMinute | undefined {
    const known = this.#keys.get(refusal.keyId);
    if (known || this.#keys.size >= MAX_CALLERS) return known;
    const added = { startMs: this.#minute, refusal, rows: 0, counts: new Map<string, number>() };
    this.#keys.set(refusal.keyId, added);
    return added;
  }

  /** Whether there was space for it. */
  #addRow(refusal: RequestRefusal, nowMs: number): boolean {
    if (this.#isFull(refusal.principalId)) return false;
    const bytes = encodeRow(refusal, nowMs);
    this.#rows.push({ principalId: refusal.principalId, bytes });
    this.#account(refusal.principalId, bytes.length);
    return true;
  }

  #isFull(principalId: string): boolean {
    const own = this.#bytesOf.get(principalId) ?? 0;
    return this.#bytes >= MAX_WAITING_BYTES || own >= MAX_WAITING_BYTES_OF_PRINCIPAL;
  }

  #account(principalId: string, bytes: number): void {
    this.#bytes += bytes;
    const own = (this.#bytesOf.get(principalId) ?? 0) + bytes;
    if (own > 0) this.#bytesOf.set(principalId, own);
    else this.#bytesOf.delete(principalId);
  }

  #count(key: KeyMinute, { keyId, code }: RequestRefusal): void {
    const id = `${key.startMs}/${keyId}`;
    if (!this.#counted.has(id)) {
      // Nothing was sent for a long time.
      if (this.#counted.size >= MAX_CALLERS) {
        this.#onDropped(1);
        return;
      }
      this.#counted.set(id, key);
    }
    key.counts.set(code, (key.counts.get(code) ?? 0) + 1);
  }
}

function encodeRow(refusal: RequestRefusal, nowMs: number): Uint8Array {
  const { requestId, keyId, principalId, policyId, endpoint, status, code, attempts, counter } = refusal;
  const row = create(RefusedRequestSchema, {
    id: newUuid(),
    requestId,
    keyId,
    principalId,
    teamId: refusal.teamId ?? '',
    policyId,
    refusedAtMs: BigInt(Math.floor(nowMs)),
    endpoint,
    modelRequested: storable(refusal.modelRequested, MAX_MODEL),
    httpStatus: status,
    code,
    message: storable(refusal.message, MAX_MESSAGE),
    attempts,
    ...(counter && { counter: encodedCounter(counter) }),
    attribution: encodedAttribution(refusal.attribution()),
  });
  return toBinary(RefusedRequestSchema, row);
}

function encodedCounter({ bucket, limits, limit, spent, wanted, resetsAtMs }: RefusingCounter) {
  const { policyId, counterVersion, subject, windowStartMs = 0n } = bucket;
  return {
    bucket: { policyId, counterVersion, subject, windowStartMs },
    limits,
    ...(limit !== undefined && { limit }),
    ...(spent !== undefined && { spent }),
    ...(wanted !== undefined && { wanted }),
    ...(resetsAtMs !== undefined && { resetsAtMs: BigInt(resetsAtMs) }),
  };
}

function encodedAttribution({ session, workloadType, labels, ...names }: Attribution) {
  const shown: Record<string, string> = {};
  let size = 0;
  for (const [name, value] of Object.entries(labels)) {
    size += name.length + value.length;
    if (size > MAX_LABELS) break;
    Object.defineProperty(shown, name, { value, enumerable: true });
  }
  return {
    ...names,
    labels: shown,
    ...(session && { sessionId: session.text, sessionSha256: session.sha256 }),
    ...(workloadType && { workloadType: workloadType.text, workloadTypeSha256: workloadType.sha256 }),
  };
}

/** Text as Postgres stores it: what the caller sent may have anything in it. */
function storable(text: string, maxLength: number): string {
  return Buffer.from(text.slice(0, maxLength)).toString().replaceAll('\0', '\ufffd');
}

function encodeCounts({ startMs, refusal, counts }: KeyMinute): Uint8Array {
  const { keyId, principalId, policyId, endpoint, status } = refusal;
  const row = create(RefusedRequestSchema, {
    id: newUuid(),
    keyId,
    principalId,
    teamId: refusal.teamId ?? '',
    policyId,
    refusedAtMs: BigInt(startMs),
    endpoint,
    httpStatus: status,
    counts: Object.fromEntries(counts),
  });
  return toBinary(RefusedRequestSchema, row);
}
