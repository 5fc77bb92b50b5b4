import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { UsageStream } from '@weighbridge/bus';
import { serveRelay } from './relay.ts';

const PROXY_MAIN = fileURLToPath(new URL('./proxyMain.js', import.meta.url));
const STOP_TIMEOUT_MS = 15_000;

interface DemoProxy {
  readonly name: string;
  readonly pid: number;
  /** SIGKILL, as by a machine that dies; resolves once it is gone. */
  kill(): Promise<void>;
}

export interface ProxyOptions {
  readonly dataDir: string;
  readonly controlPlane: { readonly address: string; readonly token: string };
  readonly stream: UsageStream;
  readonly version: string;
}

/** Proxies as processes of their own. */
export interface DemoProxies {
  /** One of the same name as a killed one continues with its spool. */
  start(name: string): Promise<DemoProxy>;
  /** Where requests go: to those that are ready and were not killed. */
  urls(): readonly string[];
  stopAll(): Promise<void>;
}

export function createProxies(options: ProxyOptions): DemoProxies {
  const children = new Set<ChildProcess>();
  const ready = new Map<string, string>();
  return {
    async start(name) {
      // Detached, so that Ctrl-C reaches this process alone, which ends them in order.
      const env = environmentOf(name, options);
      const child = fork(PROXY_MAIN, { serialization: 'advanced', detached: true, env });
      children.add(child);
      child.once('exit', () => children.delete(child));
      const url = await serveRelay(child, options.stream);
      ready.set(name, url);
      return {
        name,
        pid: child.pid ?? 0,
        kill() {
          ready.delete(name);
          return end(child, 'SIGKILL');
        },
      };
    },
    urls: () => [...ready.values()],
    async stopAll() {
      await Promise.all([...children].map((child) => end(child, 'SIGTERM')));
    },
  };
}

function environmentOf(
  name: string,
  { dataDir, controlPlane, version }: ProxyOptions,
): Record<string, string> {
  return {
    CONTROL_PLANE_ADDRESS: controlPlane.address,
    CONTROL_PLANE_TOKEN: controlPlane.token,
    PROXY_NAME: name,
    // One parent folder each: the successor of a killed proxy takes over its spool, no other proxy.
    SPOOL_DIR: join(dataDir, 'demo', name, 'spool'),
    UPSTREAM_MAX_RETRIES: '0',
    WEIGHBRIDGE_VERSION: version,
  };
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await ended;
  clearTimeout(timer);
}
