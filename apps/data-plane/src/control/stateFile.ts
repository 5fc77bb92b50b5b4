import { type FileHandle, open, readFile, rename } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { KeySchema, type KnownKey, KnownKeySchema, ProxyStateSchema } from '@weighbridge/contracts';
import { SEAL_BYTES, Sealer, unseal } from '@weighbridge/domain';
import { ensureFolder, type Logger } from '@weighbridge/runtime';
import type { Tables } from '@weighbridge/state';
import type { ControlState } from './controlState.ts';
import { keyBytes } from './keyEntry.ts';
import { type KeyStore, tokenIdOf, tokenSha256Of } from './keyStore.ts';

export interface StateFileOptions {
  readonly file: string;
  /** 32 bytes. The file holds vendors' credentials and the keys' owners. */
  readonly key: Buffer;
  readonly state: ControlState;
  readonly store: KeyStore;
  readonly logger: Logger;
  /** The wall clock in Unix milliseconds, and a monotonic one. */
  readonly clock: { readonly wallMs: () => number; readonly monotonicMs: () => number };
}

const SAVE_MS = 5_000;
/** The pause after a save is at least this many times the work of it, however many keys there are. */
const PAUSE_PER_SAVE = 50;

/** The proxy's state on disk, sealed: a proxy can start from it without a control plane. */
export class StateFile {
  readonly #options: StateFileOptions;

  constructor(options: StateFileOptions) {
    this.#options = options;
  }

  /** Loads the state that an earlier process saved. Resolves with whether it is recent enough to serve from. */
  async restore(): Promise<boolean> {
    const { state, clock, logger } = this.#options;
    const plain = await this.#read();
    if (!plain) return false;
    const { snapshot, heardAtMs, keys } = fromBinary(ProxyStateSchema, plain);
    const silenceMs = clock.wallMs() - Number(heardAtMs);
    // If the clock is behind the last contact, the age of the state is unknown.
    if (!snapshot || silenceMs < 0) return false;
    const now = clock.monotonicMs();
    state.restore(snapshot, now - silenceMs);
    this.#restoreKeys(keys, now - silenceMs);
    const status = state.status(now);
    logger.info({ keys: keys.length, silenceMs, state: status }, 'restored the state file');
    return status !== 'expired';
  }

  /** Writes the current state, atomically. Resolves with how long this took of the thread, in milliseconds. */
  async save(): Promise<number> {
    const { file, key, state, store, clock } = this.#options;
    const { tables, position } = state;
    if (!position) return 0;
    const silenceMs = clock.monotonicMs() - state.lastContactMs;
    const head = {
      snapshot: { revision: position.revision, position },
      heardAtMs: BigInt(Math.floor(clock.wallMs() - silenceMs)),
    };
    // Requests reorder the store during the save.
    const tokenIds = store.ids();
    await ensureFolder(dirname(resolve(file)));
    const unfinished = `${file}.new`;
    const handle = await open(unfinished, 'w', 0o600);
    let workMs: number;
    try {
      workMs = await writeSealed(handle, key, packState(head, tables, tokenIds, store), clock.monotonicMs);
    } finally {
      await handle.close();
    }
    await rename(unfinished, file);
    return workMs;
  }

  /** Saves repeatedly until closed, and then once more. */
  start(): { close(): Promise<void> } {
    const { file, logger } = this.#options;
    let saving = Promise.resolve();
    let timer: NodeJS.Timeout | undefined;
    let isClosed = false;
    const saveNow = () => {
      saving = saving
        .then(() => this.save())
        .catch((error) => {
          logger.error({ err: error, file }, 'failed to write the state file');
          return 0;
        })
        .then((workMs) => saveAfter(Math.max(SAVE_MS, PAUSE_PER_SAVE * workMs)));
    };
    const saveAfter = (ms: number) => {
      if (!isClosed) timer = setTimeout(saveNow, ms);
    };
    saveAfter(SAVE_MS);
    return {
      close: async () => {
        isClosed = true;
        clearTimeout(timer);
        saveNow();
        await saving;
      },
    };
  }

  async #read(): Promise<Buffer | undefined> {
    const { file, key, logger } = this.#options;
    const sealed = await readFile(file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') logger.warn({ err: error, file }, 'failed to read the state file');
      return undefined;
    });
    const plain = sealed && unseal(key, sealed);
    if (sealed && !plain) {
      const message = 'the state file is damaged or was sealed with another STATE_KEY; starting without it';
      logger.warn({ file }, message);
    }
    return plain;
  }

  #restoreKeys(keys: readonly KnownKey[], readAtMs: number): void {
    const lookUp = this.#options.store.beginLookUp();
    for (const { key, tokenSha256, revision, maxAgeMs } of keys) {
      if (key) lookUp.store(tokenIdOf(tokenSha256), key, { revision, readAtMs, maxAgeMs });
    }
    lookUp.end();
  }
}

/** A fraction of a millisecond's work, mostly: requests are served between one piece and the next. */
const ROWS_PER_PIECE = 100;
const KEYS_PER_PIECE = 100;
const { keys: KEYS } = ProxyStateSchema.field;
const { tokenSha256: TOKEN, key: KEY, revision: REVISION, maxAgeMs: MAX_AGE } = KnownKeySchema.field;

/**
 * The state in protobuf, in pieces: whoever reads it appends the rows of each to those before. A key is left out if it is outdated by the time of its piece, and copied without decoding it
 * unless a policy has newer settings. It may be newer than the rest: it has its own revision.
 */
function* packState(
  head: MessageInitShape<typeof ProxyStateSchema>,
  tables: Tables,
  tokenIds: readonly string[],
  store: Pick<KeyStore, 'peek' | 'isOutdated' | 'current' | 'settingsRevision'>,
): Generator<Uint8Array> {
  yield toBinary(ProxyStateSchema, create(ProxyStateSchema, head));
  for (const [kind, rows] of Object.entries(tables)) {
    for (const piece of inPieces(rows.values(), ROWS_PER_PIECE)) {
      yield toBinary(ProxyStateSchema, create(ProxyStateSchema, { snapshot: { [kind]: piece } }));
    }
  }
  for (let at = 0; at < tokenIds.length; at += KEYS_PER_PIECE) {
    const writer = new BinaryWriter();
    for (const tokenId of tokenIds.slice(at, at + KEYS_PER_PIECE)) {
      const entry = store.peek(tokenId);
      if (!entry || store.isOutdated(entry)) continue;
      const revision = store.settingsRevision(entry);
      // Any release that reads the file takes a key's policies as they are in the key.
      const packed =
        revision === entry.revision ? keyBytes(entry) : toBinary(KeySchema, store.current(entry));
      writer.tag(KEYS.number, WireType.LengthDelimited).fork();
      writer.tag(TOKEN.number, WireType.LengthDelimited).bytes(tokenSha256Of(tokenId));
      writer.tag(KEY.number, WireType.LengthDelimited).bytes(packed);
      writer.tag(REVISION.number, WireType.Varint).uint64(revision);
      writer.tag(MAX_AGE.number, WireType.Varint).uint32(entry.maxAgeMs);
      writer.join();
    }
    yield writer.finish();
  }
}

function* inPieces<Row>(rows: Iterable<Row>, size: number): Generator<Row[]> {
  let piece: Row[] = [];
  for (const row of rows) {
    piece.push(row);
    if (piece.length < size) continue;
    yield piece;
    piece = [];
  }
  if (piece.length > 0) yield piece;
}

/** Writes each piece before the next one is made, so that there is no second copy of the state. Resolves with the time of the thread. */
async function writeSealed(
  handle: FileHandle,
  key: Buffer,
  pieces: Iterable<Uint8Array>,
  nowMs: () => number,
): Promise<number> {
  const sealer = new Sealer(key);
  // Room for the tag, which is known at the end. Until then, and after a crash, no one takes the file for a state.
  await handle.writeFile(Buffer.concat([sealer.iv, Buffer.alloc(SEAL_BYTES - sealer.iv.length)]));
  let workMs = 0;
  let beganAtMs = nowMs();
  for (const piece of pieces) {
    const sealed = sealer.update(piece);
    workMs += nowMs() - beganAtMs;
    // Continues where the last one ended.
    await handle.writeFile(sealed);
    beganAtMs = nowMs();
  }
  const tag = sealer.end();
  const { bytesWritten } = await handle.write(tag, 0, tag.length, sealer.iv.length);
  if (bytesWritten < tag.length) throw new Error('the tag of the state file was not written whole');
  return workMs;
}
