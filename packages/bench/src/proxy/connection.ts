import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createMessageReader } from './httpMessages.ts';
import type { LoadOrder } from './loadOrder.ts';
import { expectedMarks, expectedResponse } from './workload.ts';

/** One connection of the load generator: sends one request at a time and checks every response. */
export interface Connection {
  /** When the latency of the current request starts. */
  since: number;
  firstByteAt: number;
  send(head: Buffer, body: Buffer, since: number): void;
  close(): void;
}

export interface ConnectionEvents {
  readonly onResponse: (connection: Connection) => void;
  readonly onFailure: (error: Error) => void;
}

/** Up to this size, head and body are sent as one buffer; larger bodies are not copied. */
const JOINED_BYTES = 16 * 1024;

export async function openConnection(
  url: string,
  { workload, expects }: Pick<LoadOrder, 'workload' | 'expects'>,
  { onResponse, onFailure }: ConnectionEvents,
): Promise<Connection> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port || 80), noDelay: true });
  await once(socket, 'connect');
  const check =
    expects === 'mark' ? checkMarks(expectedMarks(workload)) : checkBytes(expectedResponse(workload));
  let isWaiting = false;
  let status = '';
  const connection: Connection = {
    since: 0,
    firstByteAt: 0,
    send(head, body, since) {
      isWaiting = true;
      connection.since = since;
      connection.firstByteAt = 0;
      write(socket, head, body);
    },
    close: () => socket.destroy(),
  };
  const read = createMessageReader({
    onHead: (head) => {
      status = head.slice(9, 12);
      check.begin();
    },
    onBody: (bytes) => {
      if (connection.firstByteAt === 0) connection.firstByteAt = performance.now();
      check.more(bytes);
    },
    onEnd: () => {
      const wrong = check.end();
      if (status !== '200' || wrong !== undefined || !isWaiting) {
        throw new Error(`${url} answered ${status} and ${wrong ?? 'more than one response'}`);
      }
      isWaiting = false;
      onResponse(connection);
    },
  });
  socket.on('data', (bytes: Buffer) => {
    try {
      read(bytes);
    } catch (error) {
      socket.destroy();
      onFailure(error as Error);
    }
  });
  socket.on('error', onFailure);
  socket.on('close', () => isWaiting && onFailure(new Error(`${url} closed a connection`)));
  return connection;
}

function write(socket: Socket, head: Buffer, body: Buffer): void {
  if (body.length <= JOINED_BYTES) return void socket.write(Buffer.concat([head, body]));
  socket.cork();
  socket.write(head);
  socket.write(body);
  socket.uncork();
}

/** Checks a response piece by piece; `end` returns the error, or undefined if there is none. */
interface Check {
  begin(): void;
  more(bytes: Buffer): void;
  end(): string | undefined;
}

const SHOWN_BYTES = 300;

function checkBytes(expected: Buffer): Check {
  let at = 0;
  let isSame = true;
  let seen = '';
  return {
    begin() {
      at = 0;
      isSame = true;
    },
    more(bytes) {
      const until = at + bytes.length;
      if (isSame && (until > expected.length || bytes.compare(expected, at, until) !== 0)) {
        isSame = false;
        seen = `at byte ${at}: ${bytes.toString('latin1', 0, SHOWN_BYTES)}`;
      }
      at = until;
    },
    end() {
      if (isSame && at === expected.length) return undefined;
      return isSame ? `${at} bytes instead of ${expected.length}` : `something else, ${seen}`;
    },
  };
}

function checkMarks(marks: readonly RegExp[]): Check {
  let text = '';
  return {
    begin() {
      text = '';
    },
    more(bytes) {
      text += bytes.toString('latin1');
    },
    end() {
      const isWhole = marks.every((mark) => mark.test(text));
      return isWhole ? undefined : `something else: ${text.slice(0, SHOWN_BYTES)}`;
    },
  };
}
