import type { StartedTestContainer } from 'testcontainers';

const POSTGRES_IMAGE = 'postgres:18-alpine';
const NATS_IMAGE = 'nats:2.12-alpine';
const PASSWORD = 'weighbridge';

/** Whether a Docker engine answers. Loads testcontainers only now: it takes half a second. */
export async function dockerAnswers(): Promise<boolean> {
  try {
    const { getContainerRuntimeClient } = await import('testcontainers');
    await getContainerRuntimeClient();
    return true;
  } catch {
    return false;
  }
}

/** A Postgres container with the given settings. testcontainers' reaper removes it, should we not get to it. */
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
    // Twice: the first is the server that the image starts to prepare the cluster.
    .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2))
    .start();
  return {
    adminUrl: `postgresql://postgres:${PASSWORD}@${address(container, 5432)}/postgres`,
    stop: () => stop(container),
  };
}

/** A NATS container that keeps its streams in a folder of the host's. */
export async function startNatsContainer(
  storeDir: string,
  port: number | undefined,
  jetStream: readonly string[],
): Promise<{ url: string; stop(signal: NodeJS.Signals): Promise<void> }> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const container = await new GenericContainer(NATS_IMAGE)
    .withCommand([...jetStream, '-sd', '/data'])
    .withBindMounts([{ source: storeDir, target: '/data' }])
    .withExposedPorts(port === undefined ? 4222 : { container: 4222, host: port })
    .withWaitStrategy(Wait.forLogMessage(/Server is ready/))
    .start();
  return {
    url: `nats://${address(container, 4222)}`,
    // No time to end in order is what SIGKILL means.
    stop: (signal) => stop(container, signal === 'SIGKILL' ? 0 : 10_000),
  };
}

function address(container: StartedTestContainer, port: number): string {
  return `${container.getHost()}:${container.getMappedPort(port)}`;
}

async function stop(container: StartedTestContainer, timeout = 0): Promise<void> {
  await container.stop({ timeout, remove: true });
}
