import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { ProxyStateSchema } from '@weighbridge/contracts';
import { seal, unseal } from '@weighbridge/domain';
import { type Logger, makeFolder } from '@weighbridge/runtime';
import { keyEntry } from './keyCache.ts';
import type { KeyStore } from './keyStore.ts';
import type { View } from './view.ts';

export interface StateFileOptions {
  readonly file: string;
  /** 32 bytes. The file holds vendors' credentials, and who has which key. */
  readonly key: Buffer;
  readonly view: View;
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
    const state = create(ProxyStateSchema, {
      snapshot: { ...snapshot, revision: position.revision, position },
      heardAtMs: BigInt(Math.floor(clock.wallMs() - silenceMs)),
      keys: [...store.entries()].map(([tokenId, entry]) => ({
        tokenSha256: Buffer.from(tokenId, 'base64'),
        key: entry.message,
        revision: entry.revision,
        maxAgeMs: entry.maxAgeMs,
      })),
    });
    await makeFolder(dirname(resolve(file)));
    const unfinished = `${file}.new`;
    await writeFile(unfinished, seal(key, Buffer.from(toBinary(ProxyStateSchema, state))), { mode: 0o600 });
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
        look.store(Buffer.from(known.tokenSha256).toString('base64'), entry);
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
      const saveNow = () => {
        saving = saving
          .then(save)
          .catch((error) => logger.error({ err: error, file }, 'the state could not be kept'));
      };
      const timer = setInterval(saveNow, SAVE_MS);
      return {
        close: async () => {
          clearInterval(timer);
          saveNow();
          await saving;
        },
      };
    },
  };
}
