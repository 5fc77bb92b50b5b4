import {
  createInProcessBucket,
  type KeyValueBucket,
  type KeyValueSettings,
  openJetStreamBucket,
} from '@weighbridge/bus';

export interface PinSettings {
  /** How long a session is remembered after its pin was written, which it is again each quarter of that while in use. */
  readonly ttlMs: number;
  readonly maxBytes: number;
  /** How many NATS servers keep the pins. */
  readonly replicas: number;
}

export interface PinBucketOptions {
  /** Undefined: there is no other process to share the pins with. */
  readonly natsUrl: string | undefined;
  readonly onError: (error: unknown, what: string) => void;
}

/** An identifier of a model and one of a connector, in JSON. */
const MAX_PIN_BYTES = 4_096;

/** The settings that decide how the bucket should be. */
export const PIN_BUCKET_SETTINGS = 'SESSION_PIN_TTL_MS, SESSION_PINS_MAX_BYTES and NATS_BUCKET_REPLICAS';

export function pinBucketSettings({ ttlMs, maxBytes, replicas }: PinSettings): KeyValueSettings {
  return { name: 'SESSION_PINS', ttlMs, maxBytes, maxValueBytes: MAX_PIN_BYTES, replicas };
}

/** What keeps the session pins: a bucket of NATS, or of this process. */
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
