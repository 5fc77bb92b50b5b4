import { createServer, type Socket } from 'node:net';
import { announce } from '../shared/announce.ts';
import { createMessageReader } from './httpMessages.ts';
import {
  PACE_MS,
  PACED_EVENTS,
  PACED_MARK,
  PROMPT_END,
  STREAMED_EVENTS,
  WHOLE_RESPONSE,
} from './workload.ts';

// A vendor as a separate process that is never the bottleneck: a bare socket and prepared responses.

const head = (status: string, type: string, length: string) =>
  Buffer.from(`HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\n${length}\r\n\r\n`);
const WHOLE = Buffer.concat([
  head('200 OK', 'application/json', `content-length: ${WHOLE_RESPONSE.length}`),
  WHOLE_RESPONSE,
]);
const CUT = '{"error":{"message":"The end of the prompt is missing.","type":"invalid_request_error"}}';
const REFUSAL = Buffer.concat([
  head('400 Bad Request', 'application/json', `content-length: ${CUT.length}`),
  Buffer.from(CUT),
]);
const STREAM_HEAD = head('200 OK', 'text/event-stream', 'transfer-encoding: chunked');
const chunked = (events: readonly Buffer[]) =>
  events.map((event) =>
    Buffer.concat([Buffer.from(`${event.length.toString(16)}\r\n`), event, Buffer.from('\r\n')]),
  );
const STREAM_CHUNKS = chunked(STREAMED_EVENTS);
const PACED_CHUNKS = chunked(PACED_EVENTS);
const STREAM_END = Buffer.from('0\r\n\r\n');
/** Bytes searched at each end of a request, since some contenders reorder its fields. */
const SEARCHED_BYTES = 256;
const STREAM_FLAG = '"stream":true';

function serve(socket: Socket): void {
  socket.setNoDelay(true);
  let start = '';
  let end: Buffer = Buffer.alloc(0);
  const read = createMessageReader({
    onHead: () => {
      start = '';
      end = Buffer.alloc(0);
    },
    onBody: (bytes) => {
      if (start.length < SEARCHED_BYTES) start += bytes.toString('latin1', 0, SEARCHED_BYTES);
      end = bytes.length < SEARCHED_BYTES ? Buffer.concat([end, bytes]) : bytes;
    },
    onEnd: () => {
      const last = end.toString('latin1', Math.max(0, end.length - SEARCHED_BYTES));
      if (!last.includes(PROMPT_END)) socket.write(REFUSAL);
      else if (start.includes(STREAM_FLAG) || last.includes(STREAM_FLAG)) {
        stream(socket, last.includes(PACED_MARK));
      } else socket.write(WHOLE);
    },
  });
  socket.on('data', (bytes: Buffer) => {
    try {
      read(bytes);
    } catch {
      socket.destroy();
    }
  });
  socket.on('error', () => socket.destroy());
}

/** Writes each chunk in its own turn of the event loop, so that each is a separate packet, or some time after the last. */
function stream(socket: Socket, isPaced: boolean): void {
  const chunks = isPaced ? PACED_CHUNKS : STREAM_CHUNKS;
  let next = 0;
  const step = () => {
    const chunk = chunks[next];
    if (socket.destroyed || !chunk) return;
    next++;
    if (next === 1) {
      socket.cork();
      socket.write(STREAM_HEAD);
      socket.write(chunk);
      socket.uncork();
    } else if (next < chunks.length) socket.write(chunk);
    else socket.write(Buffer.concat([chunk, STREAM_END]));
    if (next === chunks.length) return;
    if (isPaced) setTimeout(step, PACE_MS);
    else setImmediate(step);
  };
  step();
}

announce(createServer(serve));
