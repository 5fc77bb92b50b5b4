import { isAbsolute, join } from 'node:path';

/** The environment variables that the test servers depend on. Only this module reads them. */
export interface TestEnvironment {
  /** A running Postgres whose user may create databases. */
  readonly databaseUrl: string | undefined;
  /** A running NATS server with JetStream, shared by all tests. */
  readonly natsUrl: string | undefined;
  readonly natsServerBin: string | undefined;
  readonly path: readonly string[];
  /** Folder in which downloads are cached for later runs; undefined if the user has no home. */
  readonly cacheDir: string | undefined;
  readonly all: Readonly<Record<string, string | undefined>>;
}

export function readTestEnvironment(
  env: Readonly<Record<string, string | undefined>> = process.env,
): TestEnvironment {
  return {
    databaseUrl: env.TEST_DATABASE_URL || undefined,
    natsUrl: env.TEST_NATS_URL || undefined,
    natsServerBin: env.NATS_SERVER_BIN || undefined,
    path: (env.PATH ?? '').split(':').filter((folder) => isAbsolute(folder)),
    cacheDir: cacheDir(env),
    all: env,
  };
}

function cacheDir(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const { XDG_CACHE_HOME: xdg, HOME: home } = env;
  if (xdg && isAbsolute(xdg)) return join(xdg, 'weighbridge');
  return home && isAbsolute(home) ? join(home, '.cache', 'weighbridge') : undefined;
}

/** The only variables that processes started by tests inherit. */
export function inheritedEnvironment(): Record<string, string> {
  const { PATH = '/usr/bin:/bin', HOME = '/nonexistent' } = process.env;
  return { PATH, HOME };
}
