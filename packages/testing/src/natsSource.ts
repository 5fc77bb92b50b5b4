import { join } from 'node:path';
import type { TestEnvironment } from './env.ts';

/** How test files get their NATS server. */
export type NatsSource =
  | { readonly kind: 'shared'; readonly url: string }
  | { readonly kind: 'binary'; readonly path: string }
  | { readonly kind: 'docker' };

export interface NatsProbes {
  /** Whether a file is a nats-server that runs on this machine. */
  isNatsServer(path: string): Promise<boolean>;
  /** Whether a NATS server answers at this URL. */
  answers(url: string): Promise<boolean>;
  dockerAnswers(): Promise<boolean>;
  /** Downloads nats-server into this folder (created if missing) and returns its path. */
  download(cacheDir: string): Promise<string>;
}

/**
 * Finds NATS, in this order: TEST_NATS_URL; NATS_SERVER_BIN, PATH, /usr/sbin, the cache; Docker; a download into the cache.
 * A server or binary named in the environment must work. If there is none, throws and says what to install: tests are
 * never skipped.
 */
export async function locateNats(
  env: Pick<TestEnvironment, 'natsUrl' | 'natsServerBin' | 'path' | 'cacheDir'>,
  temporaryDir: string,
  probes: NatsProbes,
): Promise<NatsSource> {
  if (env.natsUrl !== undefined) {
    if (await probes.answers(env.natsUrl)) return { kind: 'shared', url: env.natsUrl };
    throw new Error(
      `No NATS server answers at TEST_NATS_URL (${env.natsUrl}). Start it, or unset the variable.`,
    );
  }
  if (env.natsServerBin !== undefined) {
    if (await probes.isNatsServer(env.natsServerBin)) return { kind: 'binary', path: env.natsServerBin };
    throw new Error(
      `NATS_SERVER_BIN (${env.natsServerBin}) does not run. Correct it, or unset the variable.`,
    );
  }
  const cacheDir = env.cacheDir ?? temporaryDir;
  for (const folder of [...env.path, '/usr/sbin', cacheDir]) {
    const path = join(folder, 'nats-server');
    if (await probes.isNatsServer(path)) return { kind: 'binary', path };
  }
  if (await probes.dockerAnswers()) return { kind: 'docker' };

  const failures: string[] = [];
  for (const folder of new Set([cacheDir, temporaryDir])) {
    try {
      return { kind: 'binary', path: await probes.download(folder) };
    } catch (error) {
      failures.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error(
    [
      'The tests need a NATS server and found none. One of these helps:',
      '  - install it: `apt-get install nats-server` (Debian, Ubuntu), `brew install nats-server` (macOS)',
      '  - NATS_SERVER_BIN=/path/to/nats-server',
      '  - TEST_NATS_URL=nats://127.0.0.1:4222, a running server with JetStream',
      '  - start Docker',
      `Looked on PATH, in /usr/sbin and in ${cacheDir}; no Docker engine responds; the download failed:`,
      ...failures.map((failure) => `  ${failure}`),
    ].join('\n'),
  );
}
