import { createHash, hkdfSync } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, gunzip, gzip } from 'node:zlib';
import {
  createInProcessBucket,
  type KeyValueBucket,
  type KeyValueSettings,
  openJetStreamBucket,
  RESPONSE_BUCKET,
} from '@weighbridge/bus';
import { seal, unseal } from '@weighbridge/domain';
import type { HeldMemory } from '../shared/memoryBudget.ts';

/** What a request holds while it reads from the store, and afterwards. */
export type StoreMemory = Pick<HeldMemory, 'takeBody' | 'release'>;

/** A response that a vendor without a store made, and the conversation that led to it. */
export interface StoredResponse {
  /** The items of the conversation, its own included, as they were written, with commas between them. */
  readonly items: Buffer;
  /** As the caller got it: a JSON object. */
  readonly response: Buffer;
}

export interface ResponseStoreDeps {
  readonly bucket: Pick<KeyValueBucket, 'get' | 'put' | 'delete'>;
  /** 32 bytes, the same on all proxies. */
  readonly sealingKey: Buffer;
  readonly onError: (error: unknown, what: string) => void;
}

const DAY_MS = 86_400_000;
const GIB = 2 ** 30;
/** What the only process of embedded mode keeps in its memory. */
const IN_PROCESS_BYTES = 32 * 1024 * 1024;
/** A NATS server's default limit for a message is slightly higher. */
const MAX_PIECE_BYTES = 1_000_000;
/** The largest conversation that is stored, as its last request has it. */
export const MAX_CONVERSATION_BYTES = 16 * 1024 * 1024;
/** Of what is stored with it: its answer, once as an item and once as the caller got it. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const MAX_BYTES = MAX_CONVERSATION_BYTES + MAX_ANSWER_BYTES;
/** Plain, packed and in pieces. */
const TIMES_HELD_TO_SAVE = 3;
const ID = /^resp_wb_[\w-]{1,80}$/;

/** What the ids of stored responses begin with, after `resp_`: no vendor's do. */
export const STORED_PREFIX = 'wb_';

/** Whether an id is one that this service issues for what it stores itself. */
export function isOwnResponse(id: string): boolean {
  return ID.test(id);
}

export function responseBucketSettings(replicas: number): KeyValueSettings {
  return { name: RESPONSE_BUCKET, ttlMs: DAY_MS, maxBytes: GIB, maxValueBytes: MAX_PIECE_BYTES, replicas };
}

/** The name of the setting that configures the bucket. */
export const RESPONSE_BUCKET_SETTINGS = 'NATS_BUCKET_REPLICAS';

/**
 * Opens the bucket of responses that this service stores itself. Undefined, with a warning, if NATS does not allow it: then requests
 * that continue such a response are refused, and nothing else changes.
 */
export async function openResponseBucket(
  natsUrl: string | undefined,
  replicas: number,
  onError: ResponseStoreDeps['onError'],
): Promise<KeyValueBucket | undefined> {
  const settings = responseBucketSettings(replicas);
  if (natsUrl === undefined) return createInProcessBucket({ ...settings, maxBytes: IN_PROCESS_BYTES });
  const options = {
    url: natsUrl,
    clientName: 'weighbridge-responses',
    setBy: RESPONSE_BUCKET_SETTINGS,
    onError,
  };
  try {
    return await openJetStreamBucket(options, settings);
  } catch (error) {
    onError(error, 'responses of vendors without a store are not stored: their bucket could not be opened');
    return undefined;
  }
}

/** The key that seals stored responses. Every proxy derives the same, from the one secret that all of them have. */
export function responseKey(controlPlaneToken: string): Buffer {
  return Buffer.from(hkdfSync('sha256', controlPlaneToken, '', 'weighbridge responses', 32));
}

const compress = promisify<Buffer, object, Buffer>(gzip);
const decompress = promisify<Buffer, object, Buffer>(gunzip);

/** Stores responses of vendors that store none, each for its principal: no one else finds it, or can open it. */
export class ResponseStore {
  readonly #deps: ResponseStoreDeps;

  constructor(deps: ResponseStoreDeps) {
    this.#deps = deps;
  }

  /**
   * Undefined if there is none. Rejects if the store can't be asked, and with a 503 if `memory`, which holds what is found, is short:
   * a response of 16 MiB may be packed in 16 KiB.
   */
  async find(id: string, principalId: string, memory: StoreMemory): Promise<StoredResponse | undefined> {
    const name = nameOf(id, principalId);
    const first = await this.#deps.bucket.get(`${name}.0`);
    if (!first) return undefined;
    const count = first.value[0] ?? 0;
    const most = first.value.length + (count - 1) * MAX_PIECE_BYTES;
    // In pieces, joined, and opened.
    memory.takeBody(3 * most, 3 * most, principalId);
    const others = Array.from({ length: count - 1 }, (_, at) => this.#deps.bucket.get(`${name}.${at + 1}`));
    const entries = [first, ...(await Promise.all(others))];
    const pieces = entries.flatMap((entry) => (entry ? [Buffer.from(entry.value)] : []));
    // The oldest pieces of a full bucket are gone first.
    if (pieces.length !== count) return undefined;
    const sealed = Buffer.concat(pieces.map((piece) => piece.subarray(1)));
    const packed = unseal(this.#deps.sealingKey, sealed, name);
    if (!packed) return undefined;
    const plainBytes = plainSize(packed);
    memory.takeBody(plainBytes, plainBytes, principalId);
    const plain = await decompress(packed, { maxOutputLength: plainBytes });
    memory.release(3 * most);
    return unpack(plain);
  }

  /** Resolves once it can be found; never rejects: what can't be stored is reported. */
  async save(
    id: string,
    principalId: string,
    stored: StoredResponse,
    memory: Pick<HeldMemory, 'tryTake'>,
  ): Promise<void> {
    try {
      const name = nameOf(id, principalId);
      const bytes = stored.items.length + stored.response.length;
      if (bytes > MAX_BYTES) throw new Error(`it is larger than ${MAX_BYTES} bytes`);
      if (!memory.tryTake(TIMES_HELD_TO_SAVE * bytes)) throw new Error('memory is short');
      const plain = pack(stored);
      const packed = await compress(plain, { level: constants.Z_BEST_SPEED });
      const pieces = piecesOf(seal(this.#deps.sealingKey, packed, name));
      const later = pieces.slice(1).map((piece, at) => this.#deps.bucket.put(`${name}.${at + 1}`, piece));
      await Promise.all(later);
      await this.#deps.bucket.put(`${name}.0`, pieces[0] ?? Buffer.alloc(0));
    } catch (error) {
      this.#deps.onError(error, 'a response could not be stored');
    }
  }

  async delete(id: string, principalId: string): Promise<void> {
    await this.#deps.bucket.delete(`${nameOf(id, principalId)}.0`);
  }
}

/** What gzip unpacks to, as its last bytes say (RFC 1952, section 2.3.1). No one but this service can have sealed it. */
function plainSize(packed: Buffer): number {
  return Math.min(packed.readUInt32LE(packed.length - 4), 2 * MAX_BYTES);
}

/** No one can find out from it whose response it is, or of which id. */
function nameOf(id: string, principalId: string): string {
  return createHash('sha256').update(`${principalId}\n${id}`).digest('hex');
}

/** Each begins with their number. */
function piecesOf(sealed: Buffer): Buffer[] {
  const size = MAX_PIECE_BYTES - 1;
  const count = Math.ceil(sealed.length / size);
  const head = Buffer.from([count]);
  return Array.from({ length: count }, (_, at) =>
    Buffer.concat([head, sealed.subarray(at * size, (at + 1) * size)]),
  );
}

function pack({ items, response }: StoredResponse): Buffer {
  return Buffer.concat([Buffer.from(`${items.length}\n`), items, response]);
}

function unpack(plain: Buffer): StoredResponse {
  const end = plain.indexOf('\n');
  const from = end + 1;
  const to = from + Number(plain.toString('latin1', 0, end));
  return { items: plain.subarray(from, to), response: plain.subarray(to) };
}
