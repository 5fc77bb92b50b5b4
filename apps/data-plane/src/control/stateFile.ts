import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { type KnownKey, KnownKeySchema, ProxyStateSchema } from '@weighbridge/contracts';
import { seal, unseal } from '@weighbridge/domain';
import { ensureFolder, type Logger } from '@weighbridge/runtime';
import type { ControlState } from './controlState.ts';
import { type KeyEntry, keyBytes, keyEntry } from './keyEntry.ts';
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
/** The pause after a save is at least this many times its duration, however many keys there are. */
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

  /** Writes the current state, atomically. */
  async save(): Promise<void> {
    const { file, key, state, store, clock } = this.#options;
    const { snapshot, position } = state;
    if (!snapshot || !position) return;
    const silenceMs = clock.monotonicMs() - state.lastContactMs;
    const packed = await packState(
      {
        snapshot: { ...snapshot, revision: position.revision, position },
        heardAtMs: BigInt(Math.floor(clock.wallMs() - silenceMs)),
      },
      // A copy: requests reorder the store during the save.
      [...store.entries()],
    );
    await ensureFolder(dirname(resolve(file)));
    const unfinished = `${file}.new`;
    await writeFile(unfinished, seal(key, packed), { mode: 0o600 });
    await rename(unfinished, file);
  }

  /** Saves repeatedly until closed, and then once more. */
  start(): { close(): Promise<void> } {
    const { clock, file, logger } = this.#options;
    let saving = Promise.resolve();
    let timer: NodeJS.Timeout | undefined;
    let isClosed = false;
    const saveNow = () => {
      const beganAtMs = clock.monotonicMs();
      saving = saving
        .then(() => this.save())
        .catch((error) => logger.error({ err: error, file }, 'failed to write the state file'))
        .then(() => saveAfter(Math.max(SAVE_MS, PAUSE_PER_SAVE * (clock.monotonicMs() - beganAtMs))));
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
      if (key) lookUp.store(tokenIdOf(tokenSha256), keyEntry(key, { revision, readAtMs, maxAgeMs }));
    }
    lookUp.end();
  }
}

/** A few milliseconds' work. */
const KEYS_PER_TURN = 1_000;
const { keys: KEYS } = ProxyStateSchema.field;
const { tokenSha256: TOKEN, key: KEY, revision: REVISION, maxAgeMs: MAX_AGE } = KnownKeySchema.field;

/** Encodes the state in protobuf. Yields to requests between parts, and copies each key without decoding it. */
async function packState(
  head: MessageInitShape<typeof ProxyStateSchema>,
  entries: readonly (readonly [tokenId: string, entry: KeyEntry])[],
): Promise<Buffer> {
  const parts = [toBinary(ProxyStateSchema, create(ProxyStateSchema, head))];
  for (let at = 0; at < entries.length; at += KEYS_PER_TURN) {
    const writer = new BinaryWriter();
    for (const [tokenId, entry] of entries.slice(at, at + KEYS_PER_TURN)) {
      writer.tag(KEYS.number, WireType.LengthDelimited).fork();
      writer.tag(TOKEN.number, WireType.LengthDelimited).bytes(tokenSha256Of(tokenId));
      writer.tag(KEY.number, WireType.LengthDelimited).bytes(keyBytes(entry));
      writer.tag(REVISION.number, WireType.Varint).uint64(entry.revision);
      writer.tag(MAX_AGE.number, WireType.Varint).uint32(entry.maxAgeMs);
      writer.join();
    }
    parts.push(writer.finish());
    await setImmediate();
  }
  return Buffer.concat(parts);
}
