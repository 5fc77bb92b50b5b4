import type { KeyValueBucket } from '@weighbridge/bus';

/** The target that a session is pinned to. */
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

/** The pins that all proxies share. Calls reject if the bucket is unavailable. */
export interface PinStore {
  read(key: string): Promise<StoredPin | undefined>;

  /**
   * Creates a pin, or replaces the one of `revision`. Resolves with the pin that is stored then: another proxy's, if
   * that one wrote first (`isOwn` is false).
   */
  write(
    key: string,
    target: Pick<Pin, 'modelId' | 'connectorId'>,
    revision: number | undefined,
  ): Promise<StoredPin & { readonly isOwn: boolean }>;
}

/** A pin may expire between a write and the read after it. */
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
      throw new Error('the pin could not be written: it expired again and again');
    },
  };
}

function encode({ modelId, connectorId, writtenAtMs }: Pin): Uint8Array {
  return Buffer.from(JSON.stringify({ model: modelId, connector: connectorId, at: writtenAtMs }));
}

/** A value that is not a pin decodes to one without a target, which is then replaced. */
function decode(value: Uint8Array): Pin {
  try {
    const { model, connector, at } = JSON.parse(Buffer.from(value).toString());
    return { modelId: String(model), connectorId: String(connector), writtenAtMs: Number(at) || 0 };
  } catch {
    return { modelId: '', connectorId: '', writtenAtMs: 0 };
  }
}
