import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A connection to which a test writes byte for byte. */
export interface RawClient {
  write(bytes: string | Buffer): void;
  /** Ends the client's side; it still reads. */
  end(): void;
  destroy(): void;
  readonly text: string;
  readonly isClosed: boolean;
  /** Resolves with all that came, once it matches. */
  reads(until: RegExp): Promise<string>;
  /** Resolves with all that came, once the server closed the connection. */
  closes(): Promise<string>;
}

/** Ends what hangs, however busy the machine is. */
const TIMEOUT_MS = 120_000;

export async function dial(url: string): Promise<RawClient> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).setEncoding('latin1');
  const client = { text: '', isClosed: false };
  socket.on('error', () => {});
  socket.on('data', (piece) => {
    client.text += piece;
  });
  socket.on('close', () => {
    client.isClosed = true;
  });
  await once(socket, 'connect');
  const waits = async (until: () => boolean): Promise<string> => {
    const deadline = performance.now() + TIMEOUT_MS;
    while (!until()) {
      if (performance.now() > deadline) {
        socket.destroy();
        throw new Error(`not within ${TIMEOUT_MS} ms; so far: ${JSON.stringify(client.text.slice(0, 500))}`);
      }
      await sleep(10);
    }
    return client.text;
  };
  return {
    write: (bytes) => void socket.write(bytes),
    end: () => void socket.end(),
    destroy: () => void socket.destroy(),
    get text() {
      return client.text;
    },
    get isClosed() {
      return client.isClosed;
    },
    reads: (until) => waits(() => until.test(client.text)),
    closes: () => waits(() => client.isClosed),
  };
}

/** A request in bytes. Header lines are as given, and none is added but `Host`. */
export function rawRequest(line: string, headers: readonly string[] = [], body = ''): string {
  return `${[`${line} HTTP/1.1`, 'host: x', ...headers].join('\r\n')}\r\n\r\n${body}`;
}

/** All that a server sends for these bytes until it closes the connection, after the client ended its side. */
export async function exchange(url: string, bytes: string | Buffer, ends = true): Promise<string> {
  const client = await dial(url);
  client.write(bytes);
  if (ends) client.end();
  return await client.closes();
}

const INTERIM = /^(HTTP\/1\.1 1\d\d [^\r]*\r\n\r\n)+/;

/** Status, headers and JSON of the first response in a text. A client that ended its side may get interim ones before. */
export function parsedAnswer(received: string) {
  const text = received.replace(INTERIM, '');
  const at = text.indexOf('\r\n\r\n');
  const [status = '', ...lines] = text.slice(0, at).split('\r\n');
  const headers = new Map(
    lines.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1).trim(),
    ]),
  );
  let json: Record<string, unknown> = {};
  try {
    json = JSON.parse(text.slice(at + 4));
  } catch {}
  const error = (json.error ?? {}) as Record<string, unknown>;
  return { status: Number(status.split(' ')[1]), headers, json, code: String(error.code ?? '') };
}
