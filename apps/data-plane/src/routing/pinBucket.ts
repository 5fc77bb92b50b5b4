import {
  createInProcessBucket,
  type KeyValueBucket,
  type KeyValueSettings,
  openJetStreamBucket,
} from '@weighbridge/bus';

export interface PinSettings {
  /** How long a pin is retained. A pin in use is written again every quarter of it. */
  readonly ttlMs: number;
  readonly maxBytes: number;
  /** The number of NATS servers that store the pins. */
  readonly replicas: number;
}

export interface PinBucketOptions {
  /** Undefined: pins are held in this process. */
  readonly natsUrl: string | undefined;
  readonly onError: (error: unknown, what: string) => void;
}

/** A pin is small: two ids in JSON. */
const MAX_PIN_BYTES = 4_096;

/** The names of the settings that configure the bucket. */
export const PIN_BUCKET_SETTINGS = 'SESSION_PIN_TTL_MS, SESSION_PINS_MAX_BYTES and NATS_BUCKET_REPLICAS';

export function pinBucketSettings({ ttlMs, maxBytes, replicas }: PinSettings): KeyValueSettings {
  return { name: 'SESSION_PINS', ttlMs, maxBytes, maxValueBytes: MAX_PIN_BYTES, replicas };
}

/** Opens the bucket for session pins: in NATS, or in this process. */
export async function openPinBucket(
  pins: PinSettings,
  { natsUrl, onError }: PinBucketOptions,
): Promise<KeyValueBucket> {
  const settings = pinBucketSettings(pins);
  if (natsUrl === undefined) return createInProcessBucket(settings);
  return openJetStreamBucket(
    { url: natsUrl, clientName: 'weighbridge-session-pins', setBy: PIN_BUCKET_SETTINGS, onError },
    settings,
  );
}
