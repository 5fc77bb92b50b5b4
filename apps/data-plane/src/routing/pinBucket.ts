import {
  type KeyValueBucket,
  type KeyValueSettings,
  openFileBucket,
  openJetStreamBucket,
  PIN_BUCKET,
} from '@weighbridge/bus';

export interface PinSettings {
  /** How long a pin is retained. A pin in use is written again every quarter of it. */
  readonly ttlMs: number;
  readonly maxBytes: number;
  /** The number of NATS servers that store the pins. */
  readonly replicas: number;
}

export interface PinBucketOptions {
  /** Where the pins are: in NATS, or in a file of the only process. */
  readonly store: { readonly natsUrl: string } | { readonly path: string };
  readonly onError: (error: unknown, what: string) => void;
}

/** A pin is small: two ids in JSON. */
const MAX_PIN_BYTES = 4_096;

/** The names of the settings that configure the bucket. */
export const PIN_BUCKET_SETTINGS = 'SESSION_PIN_TTL_MS, SESSION_PINS_MAX_BYTES and NATS_BUCKET_REPLICAS';

export function pinBucketSettings({ ttlMs, maxBytes, replicas }: PinSettings): KeyValueSettings {
  return { name: PIN_BUCKET, ttlMs, maxBytes, maxValueBytes: MAX_PIN_BYTES, replicas };
}

/** Opens the bucket for session pins. */
export async function openPinBucket(
  pins: PinSettings,
  { store, onError }: PinBucketOptions,
): Promise<KeyValueBucket> {
  const settings = pinBucketSettings(pins);
  if ('path' in store) return await openFileBucket(settings, { path: store.path, onError });
  return openJetStreamBucket(
    { url: store.natsUrl, clientName: 'weighbridge-session-pins', setBy: PIN_BUCKET_SETTINGS, onError },
    settings,
  );
}
