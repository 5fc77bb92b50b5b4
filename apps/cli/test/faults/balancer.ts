import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A process behind a balancer: where it accepts connections, and where it reports its readiness. */
export interface Backend {
  readonly name: string;
  readonly port: number;
  readonly readyUrl: string;
}

/** Like a Kubernetes Service: distributes connections, not requests, over the backends whose `/readyz` succeeds. */
export interface Balancer {
  /** `host:port`. */
  readonly address: string;
  readonly url: string;
  /** Whether it now sends new connections to this backend. */
  serves(name: string): boolean;
  close(): Promise<void>;
}

const PROBE_MS = 100;
const PROBE_TIMEOUT_MS = 2_000;

export async function startBalancer(backends: readonly Backend[]): Promise<Balancer> {
  const ready = new Set<Backend>();
  const sockets = new Set<Socket>();
  const over = new AbortController();
  let turn = 0;

  /** Skips a backend that refuses connections: the next probe would find it not ready. */
  function open(near: Socket, left: readonly Backend[]): void {
    const [backend, ...others] = left;
    if (!backend || near.destroyed) return void near.destroy();
    const far = connect({ port: backend.port, host: '127.0.0.1', allowHalfOpen: true });
    keep(far);
    const onRefused = () => open(near, others);
    far.once('error', onRefused);
    far.once('connect', () => {
      far.off('error', onRefused);
      join(near, far);
      join(far, near);
    });
  }
  function keep(socket: Socket): void {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
  }
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (near) => {
    keep(near);
    const all = [...ready];
    const first = all.length === 0 ? 0 : turn++ % all.length;
    open(near, [...all.slice(first), ...all.slice(0, first)]);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const probes = backends.map(async (backend) => {
    while (!over.signal.aborted) {
      if (await isReady(backend)) ready.add(backend);
      else ready.delete(backend);
      await new Promise((resolve) => setTimeout(resolve, PROBE_MS));
    }
  });
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    address,
    url: `http://${address}`,
    serves: (name) => [...ready].some((backend) => backend.name === name),
    async close() {
      over.abort();
      for (const socket of sockets) socket.destroy();
      server.close();
      await Promise.all([once(server, 'close'), ...probes]);
    },
  };
}

/** An orderly end of one side ends the other in order; a broken connection breaks the other. */
function join(from: Socket, to: Socket): void {
  from.pipe(to);
  from.once('close', (hadError) => {
    if (hadError) to.resetAndDestroy();
    else if (!from.readableEnded) to.destroy();
  });
}

async function isReady({ readyUrl }: Backend): Promise<boolean> {
  // A new connection for each probe, as a kubelet does: an old one may belong to a process that is gone.
  const headers = { connection: 'close' };
  const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
  return await fetch(readyUrl, { headers, signal }).then(
    async (answer) => {
      await answer.body?.cancel();
      return answer.status === 200;
    },
    () => false,
  );
}
