import type { KeyValueBucket } from '@weighbridge/bus';

/** Where a session goes. */
export interface Pin {
  readonly modelId: string;
  readonly connectorId: string;
  /** Unix milliseconds, by the clock of the proxy that wrote it last. */
  readonly writtenAtMs: number;
}

interface StoredPin {
  readonly pin: Pin;
  readonly revision: number;
}

/** The pins that all proxies share. Every call rejects where the bucket does not answer. */
export interface PinStore {
  read(key: string): Promise<StoredPin | undefined>;

  /**
   * Writes a pin where none is, or over the one of `revision`. Resolves with what is there then: where another proxy was
   * first, that is its pin.
   */
  write(
    key: string,
    target: Pick<Pin, 'modelId' | 'connectorId'>,
    revision: number | undefined,
  ): Promise<StoredPin & { readonly isOwn: boolean }>;
}

/** What expires between two looks is tried anew, but not for ever. */
const WRITE_TRIES = 3;

export function createPinStore(bucket: KeyValueBucket, clockMs: () => number): PinStore {
  async function read(key: string): Promise<StoredPin | undefined> {
    const entry = await bucket.get(key);
    return entry && { pin: decode(entry.value), revision: entry.revision };
  }

  return {
    read,
    async write(key, { modelId, connectorId }, over) {
      const pin = { modelId, connectorId, writtenAtMs: clockMs() };
      let revision = over;
      for (let tries = 1; tries <= WRITE_TRIES; tries++) {
        const written =
          revision === undefined
            ? await bucket.create(key, encode(pin))
            : await bucket.update(key, encode(pin), revision);
        if (written !== undefined) return { pin, revision: written, isOwn: true };
        const found = await read(key);
        if (found) return { ...found, isOwn: false };
        revision = undefined;
      }
      throw new Error('the pin expires as fast as it is written');
    },
  };
}

function encode({ modelId, connectorId, writtenAtMs }: Pin): Uint8Array {
  return Buffer.from(JSON.stringify({ model: modelId, connector: connectorId, at: writtenAtMs }));
}

/** What is no pin leads nowhere, so that it is written over. */
function decode(value: Uint8Array): Pin {
  try {
    const { model, connector, at } = JSON.parse(Buffer.from(value).toString());
    return { modelId: String(model), connectorId: String(connector), writtenAtMs: Number(at) || 0 };
  } catch {
    return { modelId: '', connectorId: '', writtenAtMs: 0 };
  }
}
