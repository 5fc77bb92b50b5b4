import { Duplex } from 'node:stream';
import { Client } from 'undici';
import { ResponseParser } from '../../src/upstream/http1/responseParser.ts';
import type { FuzzAnswer } from './httpAnswers.ts';

const PLANTED = '\r\n\r\nHTTP/1.1 299 Planted\r\n\r\n';

/** What a reader makes of the bytes of one connection. */
export interface Reading {
  /** Undefined if the answer was refused. */
  readonly answer: { readonly status: number; readonly headers: object; readonly body: string } | undefined;
  /** Why it was refused. */
  readonly refusal?: string;
}

const buffer = Buffer.alloc(64 * 1024);

/** By the parser of this service. Behind each piece are bytes of another read, which it must not see. */
export function readByParser({ pieces }: FuzzAnswer): Reading {
  let status = 0;
  let headers: object = {};
  const chunks: Buffer[] = [];
  const parser = new ResponseParser({
    onHead(itsStatus, itsHeaders) {
      status = itsStatus;
      headers = itsHeaders;
    },
    onData: (chunk) => void chunks.push(chunk),
  });
  parser.begin();
  try {
    for (const piece of pieces) {
      piece.copy(buffer);
      buffer.write(PLANTED, piece.length, 'latin1');
      parser.read(buffer, piece.length);
    }
    if (!parser.isOver) parser.finish();
  } catch (error) {
    return { answer: undefined, refusal: (error as Error).message };
  }
  const body = Buffer.concat(chunks).toString('latin1');
  return { answer: { status, headers: { ...headers }, body } };
}

/** By undici, whose parser is llhttp. */
export async function readByUndici({ pieces }: FuzzAnswer): Promise<Reading> {
  const socket = new ScriptedSocket(pieces);
  const client = new Client('http://vendor.test', {
    connect: (_options, callback) => void setImmediate(callback, null, socket as never),
    pipelining: 1,
  });
  try {
    return await new Promise((resolve) => {
      let status = 0;
      let headers: object = {};
      const chunks: Buffer[] = [];
      client.dispatch(
        { method: 'GET', path: '/' },
        {
          onRequestStart() {},
          onResponseStart(_controller, itsStatus, itsHeaders) {
            status = itsStatus;
            headers = itsHeaders;
          },
          onResponseData: (_controller, chunk) => void chunks.push(chunk),
          onResponseEnd() {
            const body = Buffer.concat(chunks).toString('latin1');
            resolve({ answer: { status, headers, body } });
          },
          onResponseError: (_controller, error) => resolve({ answer: undefined, refusal: error.message }),
        },
      );
    });
  } finally {
    void client.destroy();
  }
}

/** Answers whatever is written by the pieces, each in a turn, and ends. */
class ScriptedSocket extends Duplex {
  readonly #pieces: readonly Buffer[];
  #at = 0;
  #isAsked = false;

  constructor(pieces: readonly Buffer[]) {
    super({ allowHalfOpen: false });
    this.#pieces = pieces;
  }

  setNoDelay(): this {
    return this;
  }

  override _read(): void {}

  override _write(_chunk: Buffer, _encoding: string, done: () => void): void {
    done();
    if (this.#isAsked) return;
    this.#isAsked = true;
    setImmediate(this.#next);
  }

  readonly #next = (): void => {
    if (this.destroyed) return;
    const piece = this.#pieces[this.#at++];
    this.push(piece ?? null);
    if (piece) setImmediate(this.#next);
  };
}
