import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { vi } from 'vitest';
import type { Clock, IdentifiedCloud, OpenCloud } from './identifiedClouds.ts';
import { post } from './post.ts';
import type { TestProxy, TestProxyOptions } from './proxy.ts';
import { startProxyForTest } from './useProxy.ts';

/** The sources in the environment, whose variables have these names, are those of a test alone. */
export function clearIdentityEnvironment(names: readonly string[]): void {
  vi.unstubAllEnvs();
  for (const name of names) {
    if (/^(AWS|GOOGLE|GCE|GCLOUD|AZURE|CLOUDSDK)_/.test(name)) vi.stubEnv(name, undefined);
  }
  const none = join(tmpdir(), 'weighbridge-no-such-folder');
  vi.stubEnv('CLOUDSDK_CONFIG', none);
  vi.stubEnv('AWS_CONFIG_FILE', join(none, 'config'));
  vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(none, 'credentials'));
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true');
}

export interface IdentityScene extends IdentifiedCloud {
  readonly clock: Clock;
  readonly proxy: TestProxy;
  readonly lines: readonly string[];
  ask(fields?: object): Promise<{ status: number; text: string }>;
  /** Whatever someone could see. */
  shown(...texts: string[]): string;
}

export const NANO_PER_TOKEN = 3_000n;

export interface SceneOptions {
  readonly lifeMs?: number;
  readonly identity?: object;
  /** What the cloud calls the model, if not by the name that it knows. */
  readonly upstreamName?: string;
  /** The base URLs of further accounts, with a key. */
  readonly others?: readonly string[];
  readonly options?: Partial<TestProxyOptions>;
}

/** A proxy with one connector, by that identity. */
export async function startIdentityScene(
  open: OpenCloud,
  vendorUrl: string,
  { lifeMs = 600_000, identity = {}, upstreamName, others = [], options = {} }: SceneOptions = {},
): Promise<IdentityScene> {
  const clock = { skippedMs: 0 };
  const cloud = await open({ vendorUrl, lifeMs, clock, identity });
  const { model, path, azureEnvironment = {} } = cloud;
  const provider = String(cloud.connector.provider);
  const { identity: _identity, ...plain } = cloud.connector;
  const lines: string[] = [];
  const proxy = await startProxyForTest({
    vendorUrl,
    connectors: [{ ...cloud.connector, credential: '' }, ...others.map((baseUrl) => ({ ...plain, baseUrl }))],
    models: [
      {
        id: `${provider}/${model}`,
        provider,
        upstreamName: upstreamName ?? model,
        nanoPerToken: NANO_PER_TOKEN,
      },
    ],
    maxRetries: 2,
    nowMs: () => performance.now() + clock.skippedMs,
    azureEnvironment,
    log: (line) => void lines.push(line),
    ...options,
  });
  const messages = [{ role: 'user', content: 'Grüße, "Waage" ☃' }];
  return {
    ...cloud,
    clock,
    proxy,
    lines,
    async ask(fields = {}) {
      const body = { model: `${provider}/${model}`, max_tokens: 500, messages, ...fields };
      const answer = await post(proxy, path, body);
      return { status: answer.status, text: await answer.text() };
    },
    shown: (...texts) =>
      [...texts, ...lines, ...proxy.tokenFailures.map(({ error }) => error.message)].join('\n'),
  };
}
