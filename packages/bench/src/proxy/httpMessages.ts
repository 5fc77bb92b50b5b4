const EMPTY = Buffer.alloc(0);
const LINE_END = '\r\n';
const HEAD_END = '\r\n\r\n';
const MAX_HEAD_BYTES = 64 * 1024;

export interface MessageHandler {
  /** The start line and the headers, without the blank line. */
  readonly onHead: (head: string) => void;
  /** A piece of the body, without chunk framing. */
  readonly onBody: (bytes: Buffer) => void;
  readonly onEnd: () => void;
}

/**
 * Reads successive HTTP/1.1 messages (https://www.rfc-editor.org/rfc/rfc9112) with a length or in chunks. It is minimal, so
 * that the load generator and the vendor cost less than the proxy between them.
 */
export function createMessageReader({ onHead, onBody, onEnd }: MessageHandler): (bytes: Buffer) => void {
  let part: 'head' | 'sized' | 'size' | 'chunk' | 'chunk end' | 'trailers' = 'head';
  let rest: Buffer = EMPTY;
  let left = 0;

  function end(): void {
    part = 'head';
    onEnd();
  }

  function readHead(head: string): void {
    const length = bodyLength(head);
    onHead(head);
    part = length === undefined ? 'size' : 'sized';
    left = length ?? 0;
    if (length === 0) end();
  }

  function readLine(line: string): void {
    if (part === 'trailers') {
      if (line === '') end();
    } else if (part === 'chunk end') part = 'size';
    else {
      left = Number.parseInt(line, 16);
      if (!(left >= 0)) throw new Error(`invalid chunk length: ${line.slice(0, 100)}`);
      part = left === 0 ? 'trailers' : 'chunk';
    }
  }

  return (received) => {
    const bytes = rest.length === 0 ? received : Buffer.concat([rest, received]);
    rest = EMPTY;
    for (let at = 0; at < bytes.length; ) {
      if (part === 'sized' || part === 'chunk') {
        const taken = Math.min(left, bytes.length - at);
        onBody(taken === bytes.length ? bytes : bytes.subarray(at, at + taken));
        at += taken;
        left -= taken;
        if (left > 0) return;
        if (part === 'sized') end();
        else part = 'chunk end';
        continue;
      }
      const mark = part === 'head' ? HEAD_END : LINE_END;
      const until = bytes.indexOf(mark, at, 'latin1');
      if (until < 0) {
        rest = bytes.subarray(at);
        if (rest.length > MAX_HEAD_BYTES) throw new Error('the head is too long');
        return;
      }
      const text = bytes.toString('latin1', at, until);
      at = until + mark.length;
      if (part === 'head') readHead(text);
      else readLine(text);
    }
  };
}

/** The length of the body; undefined if it is chunked. */
function bodyLength(head: string): number | undefined {
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) return Number(length);
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) return undefined;
  // A request without a length has no body. A response without one would last until its connection ends: not supported.
  if (!head.startsWith('HTTP/')) return 0;
  throw new Error(`a response without a length: ${head.slice(0, 200)}`);
}
