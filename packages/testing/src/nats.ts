import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { startNatsContainer } from './docker.ts';
import { eventually } from './eventually.ts';
import { startProcess } from './processes.ts';
import { type TestRun, testRun } from './testRun.ts';

export interface TestNats {
  /** `nats://127.0.0.1:…`, with JetStream. */
  readonly url: string;
  /** Undefined if the server is shared (TEST_NATS_URL) or in a container. */
  readonly pid: number | undefined;
  /** JetStream's data folder. `stop` leaves it in place; the end of the test run removes it. */
  readonly storeDir: string;
  /** Stops the server with a signal, SIGTERM by default. Does nothing to a shared server. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

export interface NatsOptions {
  readonly storeDir?: string;
  readonly port?: number;
  readonly jetStream?: boolean;
  /** A configuration, such as of users, and the variables that it reads. Such a server is never shared. */
  readonly configuration?: { readonly text: string; readonly env: Readonly<Record<string, string>> };
}

const CONFIGURATION = 'server.conf';

/**
 * Starts a NATS server for one test file. With the `storeDir` and `port` of a stopped server, restarts that one. With
 * TEST_NATS_URL the server is shared: names of streams and buckets must be unique. A server without JetStream is never shared.
 */
export async function startNats(options: NatsOptions = {}, run: TestRun = testRun()): Promise<TestNats> {
  const { folder, nats } = run;
  const storeDir = options.storeDir ?? (await mkdtemp(join(folder, 'nats-')));
  await mkdir(storeDir, { recursive: true });
  const { configuration } = options;
  const jetStream = options.jetStream === false ? [] : ['-js'];
  if (configuration) await writeFile(join(storeDir, CONFIGURATION), configuration.text);
  switch (nats.kind) {
    case 'shared':
      if (options.jetStream === false || configuration)
        throw new Error('This server of NATS is not available with TEST_NATS_URL. Unset the variable.');
      return { url: nats.url, pid: undefined, storeDir, stop: async () => {} };
    case 'docker': {
      const { url, stop } = await startNatsContainer(storeDir, options.port, {
        args: [...jetStream, ...(configuration ? ['-c', `/data/${CONFIGURATION}`] : [])],
        env: configuration?.env ?? {},
      });
      return { url, pid: undefined, storeDir, stop: (signal = 'SIGTERM') => stop(signal) };
    }
    case 'binary':
      return startNatsProcess(run, nats.path, storeDir, {
        args: [...jetStream, ...(configuration ? ['-c', join(storeDir, CONFIGURATION)] : [])],
        env: configuration?.env ?? {},
        port: options.port,
      });
  }
}

/** Starts a NATS server before the first test of a file and stops it after the last. */
export function useNats(): Pick<TestNats, 'url' | 'stop'> {
  let nats: TestNats;
  beforeAll(async () => {
    nats = await startNats();
  });
  afterAll(() => nats?.stop());
  return {
    get url() {
      return nats.url;
    },
    stop: (signal) => nats.stop(signal),
  };
}

async function startNatsProcess(
  run: TestRun,
  command: string,
  storeDir: string,
  {
    args,
    env,
    port = -1,
  }: { args: readonly string[]; env: Readonly<Record<string, string>>; port: number | undefined },
): Promise<TestNats> {
  const portsDir = await mkdtemp(join(run.folder, 'nats-ports-'));
  const listen = ['-a', '127.0.0.1', '-p', String(port), '--ports_file_dir', portsDir];
  const server = await startProcess(
    {
      command,
      args: [...args, '-sd', storeDir, ...listen],
      env,
      readyWhen: /Server is ready/,
      timeoutMs: 20_000,
    },
    run,
  );
  const ports = await eventually(
    async (): Promise<{ nats: string[] }> =>
      JSON.parse(await readFile(join(portsDir, `nats-server_${server.pid}.ports`), 'utf8')),
  );
  return {
    url: ports.nats[0] ?? '',
    pid: server.pid,
    storeDir,
    stop: async (signal) => {
      await server.stop(signal);
    },
  };
}
