import { randomBytes } from 'node:crypto';
import { openJetStreamUsageStream, type WantedBucket } from '@weighbridge/bus';
import { ControlService, callUnary, type TlsFiles } from '@weighbridge/contracts';
import { createLogger } from '@weighbridge/runtime';
import { MAX_CLOSING_MS, sendDeadSpool } from '@weighbridge/usage/recording';
import { CACHE_BUCKET_SETTINGS, cacheBucketSettings } from './cache/openResponseCache.ts';
import { loadConfig, loadControlAddress, loadLocalConfig, loadProcessConfig } from './config.ts';
import { openControlClient } from './control/controlClient.ts';
import { PIN_BUCKET_SETTINGS, pinBucketSettings } from './routing/pinBucket.ts';
import { RESPONSE_BUCKET_SETTINGS, responseBucketSettings } from './translation/responseStore.ts';

/** The settings of a data plane. */
type Environment = Readonly<Record<string, string | undefined>>;

const RECONNECT_MS = 1_000;

/** The NATS stream and buckets that a data plane with these settings expects. Throws if a setting is invalid. */
export function expectedNats(env: Environment): {
  readonly url: string;
  readonly stream: { readonly replicas: number; readonly maxBytes: number };
  readonly buckets: readonly WantedBucket[];
} {
  const { natsUrl, natsStream, sharedCache } = loadProcessConfig(env);
  const { pins } = loadLocalConfig(env);
  const responses = sharedCache && {
    settings: cacheBucketSettings({ maxBytes: sharedCache.maxBytes, replicas: pins.replicas }),
    setBy: CACHE_BUCKET_SETTINGS,
  };
  return {
    url: natsUrl,
    stream: natsStream,
    buckets: [
      { settings: pinBucketSettings(pins), setBy: PIN_BUCKET_SETTINGS },
      { settings: responseBucketSettings(pins.replicas), setBy: RESPONSE_BUCKET_SETTINGS },
      ...(responses ? [responses] : []),
    ],
  };
}

/** The control plane that a data plane with these settings connects to. */
export function controlAddress(env: Environment): {
  readonly address: string;
  readonly tls: TlsFiles | undefined;
} {
  return loadControlAddress(env);
}

/** The spool of a data plane with these settings. */
export function spoolSettings(env: Environment): { readonly dir: string; readonly maxBytes: number } {
  return loadLocalConfig(env).spool;
}

/** Resolves a random key at the control plane, as a data plane with these settings would. Rejects if the call fails. */
export async function pingControlPlane(env: Environment): Promise<void> {
  const { client, call } = openControlClient(loadConfig(env).controlPlane, RECONNECT_MS);
  try {
    await callUnary(client, ControlService.method.resolve, { tokenSha256: randomBytes(32) }, call);
  } finally {
    client.close();
  }
}

export interface ReplayOptions {
  /** The folder of a spool that no process works on. */
  readonly dir: string;
  readonly env: Environment;
  readonly print: (line: string) => void;
}

/**
 * Sends the usage in a dead proxy's spool to the ledger and closes its epochs. Resolves with false if some of it is
 * not in the ledger yet: that stays in the spool for another run. Rejects if the folder is no spool, or in use.
 */
export async function replaySpool({ dir, env, print }: ReplayOptions): Promise<boolean> {
  const { natsUrl, natsStream } = loadProcessConfig(env);
  const { controlPlane, spool } = loadConfig(env);
  const logger = createLogger('spool-replay');
  logger.level = 'error';
  const onError = (error: unknown, what: string) => logger.warn({ err: error }, what);
  const name = 'weighbridge-spool-replay';
  const { client, closeEpoch } = openControlClient(controlPlane, MAX_CLOSING_MS);
  try {
    return await sendDeadSpool({
      spool: { ...spool, dir },
      openStream: () => openJetStreamUsageStream({ url: natsUrl, ...natsStream, name, onError }),
      closeEpoch,
      logger,
      print,
    });
  } finally {
    client.close();
  }
}
