import { randomBytes } from 'node:crypto';
import type { WantedBucket } from '@weighbridge/bus';
import { ControlService, callUnary, type TlsFiles } from '@weighbridge/contracts';
import { ANSWERS_SET_BY, answersBucket } from './cache/openResponseCache.ts';
import { loadConfig, loadProcessConfig } from './config.ts';
import { openControlClient } from './control/controlClient.ts';
import { PINS_SET_BY, pinBucketSettings } from './routing/pinBucket.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** How a data plane with these settings would have its NATS. Throws what is wrong with the settings. */
export function wantedNats(env: Environment): {
  readonly url: string;
  readonly stream: { readonly replicas: number; readonly maxBytes: number };
  readonly buckets: readonly WantedBucket[];
} {
  const { natsUrl, natsStream, sharedAnswers } = loadProcessConfig(env);
  const { pins } = loadConfig(env);
  const answers = sharedAnswers && {
    settings: answersBucket({ maxBytes: sharedAnswers.maxBytes, replicas: pins.replicas }),
    setBy: ANSWERS_SET_BY,
  };
  return {
    url: natsUrl,
    stream: natsStream,
    buckets: [{ settings: pinBucketSettings(pins), setBy: PINS_SET_BY }, ...(answers ? [answers] : [])],
  };
}

/** Where a data plane with these settings would find its control plane. */
export function controlAddress(env: Environment): {
  readonly address: string;
  readonly tls: TlsFiles | undefined;
} {
  const { address, tls } = loadConfig(env).controlPlane;
  return { address, tls };
}

/** Where a data plane with these settings would have its spool. */
export function spoolOf(env: Environment): { readonly dir: string; readonly maxBytes: number } {
  return loadConfig(env).spool;
}

/** Asks the control plane for a key that nobody has, as a data plane with these settings would. Rejects with why it failed. */
export async function askControlPlane(env: Environment): Promise<void> {
  const { client, call } = openControlClient(loadConfig(env).controlPlane, RECONNECT_MS);
  try {
    await callUnary(client, ControlService.method.resolve, { tokenSha256: randomBytes(32) }, call);
  } finally {
    client.close();
  }
}

const RECONNECT_MS = 1_000;
