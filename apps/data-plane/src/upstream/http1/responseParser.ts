import type { IncomingHttpHeaders } from 'node:http';
import { ChunkedBody } from './chunkedBody.ts';
import { badResponse, HttpClientError } from './httpClientError.ts';
import { parseResponseHead, type ResponseHead } from './responseHead.ts';

/** As Node's limit for a head. */
const MAX_HEAD_BYTES = 16 * 1024;
/** Answers that announce the one to come, such as 103. */
const MAX_INTERIM = 16;
const END_OF_HEAD = '\r\n\r\n';
const START = 'HTTP/1.';
/** A line that does not end by CR and LF. */
const ODD_LINE_END = /[^\r]\n|\r[^\n]/;

export interface ResponseSink {
  onHead(status: number, headers: IncomingHttpHeaders): void;
  /** `chunk` is a copy. */
  onData(chunk: Buffer): void;
}

type State = 'none' | 'head' | 'body' | 'over';

/**
 * Reads the answers on one connection, one at a time, each after `begin`. It keeps no view of what it is given: the next read of any
 * connection overwrites it.
 */
export class ResponseParser {
  readonly #sink: ResponseSink;
  #state: State = 'none';
  /** A head that is not complete yet. */
  #partial = '';
  #interim = 0;
  #head: ResponseHead | undefined;
  /** Of a body with a length: bytes that are still to come. */
  #left = 0;
  #chunked: ChunkedBody | undefined;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  /** A request is being sent: its answer comes next. */
  begin(): void {
    this.#state = 'head';
    this.#partial = '';
    this.#interim = 0;
    this.#head = undefined;
    this.#chunked = undefined;
  }

  /** Nothing more is passed on. */
  stop(): void {
    this.#state = 'none';
  }

  get isOver(): boolean {
    return this.#state === 'over';
  }

  get keepsAlive(): boolean {
    return this.#head?.keepsAlive === true;
  }

  /** Of the answer that is over, or being read. */
  get headers(): IncomingHttpHeaders | undefined {
    return this.#head?.headers;
  }

  /**
   * Reads `bytes` up to `end`. Returns where it stopped: before `end` if the answer is over there, or `stop` was called. Throws for what is
   * not strict HTTP/1.1.
   */
  read(bytes: Buffer, end: number): number {
    let at = 0;
    while (at < end) {
      if (this.#state === 'head') at = this.#readHead(bytes, at, end);
      else if (this.#state === 'body') at = this.#readBody(bytes, at, end);
      else break;
    }
    return at;
  }

  /** The server has sent its last byte. Throws if the answer needs more. */
  finish(): void {
    if (this.#state === 'body' && this.#head?.framing === 'close') this.#state = 'over';
    else throw new HttpClientError('connection_closed', 'the server closed the connection early');
  }

  #readHead(bytes: Buffer, from: number, end: number): number {
    const earlier = this.#partial;
    if (earlier !== '') return this.#readRestOfHead(earlier, bytes, from, end);
    // What follows `end` is of another read.
    const length = bytes.indexOf(END_OF_HEAD, from, 'latin1') - from;
    if (length < 0 || from + length + END_OF_HEAD.length > end) {
      return this.#readRestOfHead('', bytes, from, end);
    }
    if (length + END_OF_HEAD.length > MAX_HEAD_BYTES) throw tooLong();
    this.#begin(parseResponseHead(bytes.toString('latin1', from, from + length + 2)));
    return from + length + END_OF_HEAD.length;
  }

  /** A head in several reads. */
  #readRestOfHead(earlier: string, bytes: Buffer, from: number, end: number): number {
    const most = Math.min(end, from + MAX_HEAD_BYTES - earlier.length);
    const text = earlier + bytes.toString('latin1', from, most);
    const length = text.indexOf(END_OF_HEAD, Math.max(0, earlier.length - END_OF_HEAD.length + 1));
    if (length < 0) {
      if (text.length >= MAX_HEAD_BYTES) throw tooLong();
      assertPartial(text, earlier.length);
      this.#partial = text;
      return most;
    }
    this.#partial = '';
    this.#begin(parseResponseHead(text.slice(0, length + 2)));
    return from + length + END_OF_HEAD.length - earlier.length;
  }

  #begin(head: ResponseHead): void {
    const { status, framing, length, headers } = head;
    if (status < 200) {
      // No request asks to go on (100), or for another protocol (101).
      if (status <= 101) throw badResponse(`its status is ${status}`);
      if (++this.#interim > MAX_INTERIM) throw badResponse('too many interim answers');
      return;
    }
    this.#head = head;
    this.#left = length;
    if (framing === 'chunked') this.#chunked = new ChunkedBody();
    const isEmpty = framing === 'none' || (framing === 'length' && length === 0);
    this.#state = isEmpty ? 'over' : 'body';
    this.#sink.onHead(status, headers);
  }

  #readBody(bytes: Buffer, from: number, end: number): number {
    if (this.#chunked) return this.#readChunks(this.#chunked, bytes, from, end);
    if (this.#head?.framing === 'close') {
      this.#sink.onData(copyOf(bytes, from, end));
      return end;
    }
    const to = Math.min(end, from + this.#left);
    this.#left -= to - from;
    if (this.#left === 0) this.#state = 'over';
    this.#sink.onData(copyOf(bytes, from, to));
    return to;
  }

  /** Passes on the data of all chunks of one read together. */
  #readChunks(chunked: ChunkedBody, bytes: Buffer, from: number, end: number): number {
    let data: Buffer | undefined;
    let length = 0;
    let at: number;
    try {
      at = chunked.read(bytes, from, end, (start, to) => {
        data ??= Buffer.allocUnsafe(end - start);
        length += bytes.copy(data, length, start, to);
      });
      if (chunked.isOver) this.#state = 'over';
    } finally {
      // Also before an error.
      if (data) this.#sink.onData(data.subarray(0, length));
    }
    return at;
  }
}

function tooLong(): HttpClientError {
  return badResponse('its head is too long');
}

/** A head that will never be valid is not waited for. */
function assertPartial(text: string, earlier: number): void {
  const start = text.slice(0, START.length);
  if (start !== START.slice(0, start.length)) throw badResponse('its first line is no status line');
  if (ODD_LINE_END.test(text.slice(Math.max(0, earlier - 1)))) {
    throw badResponse('a line of its head does not end by CR and LF');
  }
}

function copyOf(bytes: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafe(to - from);
  bytes.copy(copy, 0, from, to);
  return copy;
}
