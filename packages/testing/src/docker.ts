import type { StartedTestContainer } from 'testcontainers';

const POSTGRES_IMAGE = 'postgres:18-alpine';
const NATS_IMAGE = 'nats:2.12-alpine';
const PASSWORD = 'weighbridge';

/** Whether a Docker engine responds. Imports testcontainers lazily, since that takes half a second. */
export async function dockerAnswers(): Promise<boolean> {
  try {
    const { getContainerRuntimeClient } = await import('testcontainers');
    await getContainerRuntimeClient();
    return true;
  } catch {
    return false;
  }
}

/** Starts Postgres in a container. testcontainers' reaper removes it if this process cannot. */
export async function startPostgresContainer(
  settings: Readonly<Record<string, string>>,
): Promise<{ adminUrl: string; stop(): Promise<void> }> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const container = await new GenericContainer(POSTGRES_IMAGE)
    .withEnvironment({ POSTGRES_PASSWORD: PASSWORD })
    .withCommand([
      'postgres',
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ])
    .withTmpFs({ '/var/lib/postgresql': 'rw' })
    .withExposedPorts(5432)
    // Twice: the image first starts a temporary server that prepares the cluster.
    .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2))
    .start();
  return {
    adminUrl: `postgresql://postgres:${PASSWORD}@${address(container, 5432)}/postgres`,
    stop: () => stop(container),
  };
}

/** Starts NATS in a container that stores its streams in a folder of the host. */
export async function startNatsContainer(
  storeDir: string,
  port: number | undefined,
  { args, env }: { readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> },
): Promise<{ url: string; stop(signal: NodeJS.Signals): Promise<void> }> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const container = await new GenericContainer(NATS_IMAGE)
    .withCommand([...args, '-sd', '/data'])
    .withEnvironment({ ...env })
    .withBindMounts([{ source: storeDir, target: '/data' }])
    .withExposedPorts(port === undefined ? 4222 : { container: 4222, host: port })
    .withWaitStrategy(Wait.forLogMessage(/Server is ready/))
    .start();
  return {
    url: `nats://${address(container, 4222)}`,
    // SIGKILL means no graceful shutdown.
    stop: (signal) => stop(container, signal === 'SIGKILL' ? 0 : 10_000),
  };
}

function address(container: StartedTestContainer, port: number): string {
  return `${container.getHost()}:${container.getMappedPort(port)}`;
}

async function stop(container: StartedTestContainer, timeout = 0): Promise<void> {
  await container.stop({ timeout, remove: true });
}
