import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A process behind a balancer: where it takes connections, and where it says whether it wants any. */
export interface Backend {
  readonly name: string;
  readonly port: number;
  readonly readyUrl: string;
}

/** As a Service of Kubernetes: it shares out connections, not requests, among those whose `/readyz` says so. */
export interface Balancer {
  /** `host:port`. */
  readonly address: string;
  readonly url: string;
  /** Whether it sends new connections to this one now. */
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

  /** One that does not take connections any more is passed over, as a probe would find in a moment. */
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

/** What ends in order ends so on the other side; what breaks off breaks off there too. */
function join(from: Socket, to: Socket): void {
  from.pipe(to);
  from.once('close', (hadError) => {
    if (hadError) to.resetAndDestroy();
    else if (!from.readableEnded) to.destroy();
  });
}

async function isReady({ readyUrl }: Backend): Promise<boolean> {
  // A connection of its own each time, as a kubelet makes: that of a process which is gone says nothing of the next.
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
