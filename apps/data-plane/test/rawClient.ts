import { once } from 'node:events';
import { connect } from 'node:net';
import { onTestFinished } from 'vitest';

/** A connection that the test writes to, byte for byte. It is destroyed at the end of the test. */
export interface RawClient {
  write(bytes: string | Buffer): void;
  /** Resolves once the received text matches. */
  reads(until: RegExp): Promise<string>;
  readonly closed: Promise<unknown>;
  readonly received: string;
  destroy(): void;
  pause(): void;
}

export async function connectTo(url: string): Promise<RawClient> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).setEncoding('latin1');
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  let received = '';
  const waiting = new Set<() => void>();
  socket.on('data', (piece) => {
    received += piece;
    for (const wake of waiting) wake();
  });
  const closed = once(socket, 'close');
  return {
    write: (bytes) => void socket.write(bytes),
    async reads(until) {
      while (!until.test(received)) {
        await new Promise<void>((resolve) => {
          waiting.add(resolve);
        });
      }
      return received;
    },
    closed,
    get received() {
      return received;
    },
    destroy: () => void socket.destroy(),
    pause: () => void socket.pause(),
  };
}

/** A request line with headers. */
export function head(line: string, headers: Record<string, string | number> = {}): string {
  const lines = Object.entries({ host: 'x', 'content-type': 'application/json', ...headers });
  return `${[`${line} HTTP/1.1`, ...lines.map(([name, value]) => `${name}: ${value}`)].join('\r\n')}\r\n\r\n`;
}
