import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { KnownKeySchema, ProxyStateSchema } from '@weighbridge/contracts';
import { seal, unseal } from '@weighbridge/domain';
import { ensureFolder, type Logger } from '@weighbridge/runtime';
import type { ControlState } from './controlState.ts';
import { type KeyEntry, keyBytes, keyEntry } from './keyEntry.ts';
import { type KeyStore, tokenIdOf, tokenSha256Of } from './keyStore.ts';

export interface StateFileOptions {
  readonly file: string;
  /** 32 bytes. The file holds vendors' credentials, and who has which key. */
  readonly key: Buffer;
  readonly view: ControlState;
  readonly store: KeyStore;
  readonly logger: Logger;
  /** The wall clock in Unix milliseconds, and a monotonic one. */
  readonly clock: { readonly wallMs: () => number; readonly monotonicMs: () => number };
}

export interface StateFile {
  /** Takes up what an earlier process left; resolves with whether there was anything fit for use. */
  restore(): Promise<boolean>;
  /** Writes what is known now, whole or not at all. */
  save(): Promise<void>;
  /** Saves from time to time until closed, and then once more. */
  start(): { close(): Promise<void> };
}

const SAVE_MS = 5_000;
/** Of the time, at most a part of so many goes into it, however many keys there are. */
const SPARE = 50;

export function createStateFile({ file, key, view, store, logger, clock }: StateFileOptions): StateFile {
  async function read(): Promise<Buffer | undefined> {
    const sealed = await readFile(file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') logger.warn({ err: error, file }, 'the kept state could not be read');
      return undefined;
    });
    const plain = sealed && unseal(key, sealed);
    if (sealed && !plain)
      logger.warn({ file }, 'the kept state was sealed by another key, or is damaged; starting without it');
    return plain;
  }

  async function save(): Promise<void> {
    const { snapshot, position } = view;
    if (!snapshot || !position) return;
    const silenceMs = clock.monotonicMs() - view.heardAtMs;
    const state = await packState(
      {
        snapshot: { ...snapshot, revision: position.revision, position },
        heardAtMs: BigInt(Math.floor(clock.wallMs() - silenceMs)),
      },
      // As they are now: while they are written, requests move them about.
      [...store.entries()],
    );
    await ensureFolder(dirname(resolve(file)));
    const unfinished = `${file}.new`;
    await writeFile(unfinished, seal(key, state), { mode: 0o600 });
    await rename(unfinished, file);
  }

  return {
    save,

    async restore() {
      const plain = await read();
      if (!plain) return false;
      const { snapshot, heardAtMs, keys } = fromBinary(ProxyStateSchema, plain);
      const silenceMs = clock.wallMs() - Number(heardAtMs);
      // A clock that stands before the last heartbeat can't say how old it is.
      if (!snapshot || silenceMs < 0) return false;
      const now = clock.monotonicMs();
      view.restore(snapshot, now - silenceMs);
      const look = store.beginLookUp();
      for (const known of keys) {
        if (!known.key) continue;
        const entry = keyEntry(known.key, {
          revision: known.revision,
          readAtMs: now - silenceMs,
          maxAgeMs: known.maxAgeMs,
        });
        look.store(tokenIdOf(known.tokenSha256), entry);
      }
      look.end();
      logger.info(
        { keys: keys.length, silenceMs, state: view.state(now) },
        'took up what an earlier process kept',
      );
      return view.state(now) !== 'expired';
    },

    start() {
      let saving = Promise.resolve();
      let timer: NodeJS.Timeout | undefined;
      let isClosed = false;
      const saveNow = () => {
        const began = clock.monotonicMs();
        saving = saving
          .then(save)
          .catch((error) => logger.error({ err: error, file }, 'the state could not be kept'))
          .then(() => saveAfter(Math.max(SAVE_MS, SPARE * (clock.monotonicMs() - began))));
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
    },
  };
}

/** Some milliseconds' work. */
const KEYS_AT_ONCE = 1_000;
const { keys: KEYS } = ProxyStateSchema.field;
const { tokenSha256: TOKEN, key: KEY, revision: REVISION, maxAgeMs: MAX_AGE } = KnownKeySchema.field;

/** The state as protobuf. It gives way to requests time and again, and takes each key as it is packed. */
async function packState(
  head: MessageInitShape<typeof ProxyStateSchema>,
  entries: readonly (readonly [tokenId: string, entry: KeyEntry])[],
): Promise<Buffer> {
  const parts = [toBinary(ProxyStateSchema, create(ProxyStateSchema, head))];
  for (let at = 0; at < entries.length; at += KEYS_AT_ONCE) {
    const writer = new BinaryWriter();
    for (const [tokenId, entry] of entries.slice(at, at + KEYS_AT_ONCE)) {
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
