import { randomBytes } from 'node:crypto';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import type { Engine } from './engine.ts';

const STOP_TIMEOUT_S = 30;
const READY_TIMEOUT_MS = 60_000;

/** As the chart runs a container: not root, nothing writable but what is mounted, no rights. */
const CONFINED = [
  ...['--read-only', '--tmpfs', '/tmp:rw,size=64m', '--user', '65532:65532'],
  ...['--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'],
];

export interface Container {
  readonly name: string;
  signal(signal: 'TERM' | 'KILL'): Promise<void>;
  /** Waits for its end and returns its exit code. */
  wait(): Promise<number>;
  logs(): Promise<string>;
  remove(): Promise<void>;
}

export interface ContainerOptions {
  readonly image: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Such as `1Gi`, as Kubernetes writes it. */
  readonly memory?: string;
  readonly volumes?: readonly string[];
  readonly confined?: boolean;
}

/** Starts a container in the host's network, where the tests' Postgres and NATS listen. */
export async function startContainer(engine: Engine, options: ContainerOptions): Promise<Container> {
  const name = `weighbridge-test-${randomBytes(4).toString('hex')}`;
  await engine(['run', '--detach', '--name', name, ...runOptions(options), options.image, ...options.args]);
  return {
    name,
    signal: async (signal) => void (await engine(['kill', '--signal', signal, name])),
    wait: async () => Number(await engine(['wait', name])),
    logs: () => engine(['logs', name]),
    remove: async () =>
      void (await engine(['rm', '--force', '--volumes', '--time', String(STOP_TIMEOUT_S), name]).catch(
        () => {},
      )),
  };
}

/** Runs a container to its end and returns its standard output. */
export const runContainer = (engine: Engine, options: ContainerOptions): Promise<string> =>
  engine(['run', '--rm', ...runOptions(options), options.image, ...options.args]);

function runOptions({ env = {}, memory, volumes = [], confined = true }: ContainerOptions): string[] {
  return [
    ...['--network', 'host', '--pull', 'never'],
    ...(confined ? CONFINED : []),
    ...(memory ? ['--memory', memory.replace('Gi', 'g').replace('Mi', 'm')] : []),
    ...volumes.flatMap((volume) => ['--volume', volume]),
    ...Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`]),
  ];
}

export async function untilReady(port: number, container: Container): Promise<void> {
  const failure = await eventually(
    async () => expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200),
    { timeoutMs: READY_TIMEOUT_MS, intervalMs: 100 },
  ).then(
    () => undefined,
    (error: unknown) => error,
  );
  if (failure)
    throw new Error(`${container.name} did not get ready\n${await container.logs()}`, { cause: failure });
}
