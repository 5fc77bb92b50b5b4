import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** What happens to a statement, by its number since `arm`. A stopped one is never sent, and the connection stays open. */
export interface Fault {
  readonly kind: 'cut before' | 'cut after' | 'stop before';
  readonly statement: number;
}

/** An address of a Postgres. Its clients send one statement after the other, so each of their packets is one. */
export interface FaultyConnection {
  readonly url: string;
  /** What was sent since `arm`. */
  readonly statements: readonly string[];
  arm(): void;
  close(): Promise<void>;
}

export async function openFaultyConnection(target: string, fault?: Fault): Promise<FaultyConnection> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const statements: string[] = [];
  let [isArmed, isLost] = [false, false];
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    const cut = () => {
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', cut).on('close', cut);
    }
    near.on('data', (bytes) => {
      const isHit = isArmed && !isLost && statements.length === fault?.statement;
      if (isArmed) statements.push(bytes.toString('latin1'));
      isLost ||= isHit;
      if (isHit && fault?.kind === 'cut before') cut();
      else if (!isHit || fault?.kind === 'cut after') far.write(bytes);
    });
    far.on('data', (bytes) => {
      if (isLost && fault?.kind === 'cut after') cut();
      else near.write(bytes);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    statements,
    arm: () => {
      isArmed = true;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
