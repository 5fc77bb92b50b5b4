import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createMessageReader } from './httpMessages.ts';
import type { LoadOrder } from './loadOrder.ts';
import { ANSWER_MARK, STREAMED_ANSWER, WHOLE_ANSWER } from './workload.ts';

/** One connection of the load generator: a request at a time, and every answer is looked at. */
export interface Connection {
  /** Where its time counts from. */
  since: number;
  firstByteAt: number;
  send(head: Buffer, body: Buffer, since: number): void;
  close(): void;
}

export interface ConnectionEvents {
  readonly onAnswer: (connection: Connection) => void;
  readonly onFailure: (error: Error) => void;
}

/** Where a head and its body go out as one buffer; larger ones are not copied. */
const JOINED_BYTES = 16 * 1024;

export async function openConnection(
  url: string,
  { workload, expects }: Pick<LoadOrder, 'workload' | 'expects'>,
  { onAnswer, onFailure }: ConnectionEvents,
): Promise<Connection> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port || 80), noDelay: true });
  await once(socket, 'connect');
  const expected = workload.stream ? STREAMED_ANSWER : WHOLE_ANSWER;
  const check = expects === 'mark' ? checkMark() : checkBytes(expected);
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
        throw new Error(`${url} answered ${status} and ${wrong ?? 'more than it was asked'}`);
      }
      isWaiting = false;
      onAnswer(connection);
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

/** What looks at an answer piece by piece, and says in the end what is wrong. */
interface Check {
  begin(): void;
  more(bytes: Buffer): void;
  end(): string | undefined;
}

const SHOWN = 300;

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
        seen = `${at} bytes later: ${bytes.toString('latin1', 0, SHOWN)}`;
      }
      at = until;
    },
    end() {
      if (isSame && at === expected.length) return undefined;
      return isSame ? `${at} bytes instead of ${expected.length}` : `something else, ${seen}`;
    },
  };
}

function checkMark(): Check {
  let text = '';
  return {
    begin() {
      text = '';
    },
    more(bytes) {
      text += bytes.toString('latin1');
    },
    end: () => (text.includes(ANSWER_MARK) ? undefined : `something else: ${text.slice(0, SHOWN)}`),
  };
}
