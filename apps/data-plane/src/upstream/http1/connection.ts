import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { isWhole, PieceWriter, writeWhole } from './bodyWriter.ts';
import type { HttpCall } from './httpCall.ts';
import { badResponse, HttpClientError } from './httpClientError.ts';
import type { SocketOpener } from './openSocket.ts';
import { ResponseParser, type ResponseSink } from './responseParser.ts';

const READ_BYTES = 64 * 1024;
/** What any connection reads, until it is parsed, which ends before another one reads. */
const readBuffer = Buffer.allocUnsafeSlow(READ_BYTES);
/** Counts the reads into it. */
let reads = 0;

/** The pool of a connection. */
export interface ConnectionOwner {
  /** Counts up at regular times. */
  readonly tick: number;
  /** How many ticks a call waits for the connection, the head, and more of the body. */
  readonly timeoutTicks: { readonly connect: number; readonly head: number; readonly body: number };
  /** It has no call, and may get one in a later turn. */
  onIdle(connection: Connection): void;
  onClose(connection: Connection): void;
}

/** One connection to a server, which serves one call at a time. */
export class Connection implements ResponseSink {
  readonly #owner: ConnectionOwner;
  readonly #parser = new ResponseParser(this);
  readonly #socket: Socket;
  /** The call that it opens for, or serves. */
  #call: HttpCall | undefined;
  #writer: PieceWriter | undefined;
  #isPaused = false;
  #isClosed = false;
  /** The tick by which something must have happened. */
  #deadline: number;
  #waitsFor: 'connect_timeout' | 'head_timeout' | 'body_timeout' = 'connect_timeout';
  /** While it rests: when it is closed at the latest, by the pool's clock. */
  idleUntilMs = 0;

  constructor(owner: ConnectionOwner, opener: SocketOpener, call: HttpCall) {
    this.#owner = owner;
    this.#call = call;
    call.connection = this;
    this.#deadline = owner.tick + owner.timeoutTicks.connect;
    const callback = (count: number) => this.#read(count);
    this.#socket = opener.open({ buffer: readBuffer, callback }, () => this.#onOpen());
    this.#socket
      .on('drain', () => this.#onDrain())
      .on('end', () => this.#onEnd())
      .on('error', (error) => this.fail(error))
      .on('close', () => this.#onClose());
  }

  /** Of the last answer. */
  get headers(): IncomingHttpHeaders | undefined {
    return this.#parser.headers;
  }

  /** Sends the call, unless its handler aborts it. */
  serve(call: HttpCall): void {
    this.#call = undefined;
    call.connection = undefined;
    this.#deadline = Number.POSITIVE_INFINITY;
    try {
      call.handler.onRequestStart(call);
    } catch (error) {
      call.fail(error as Error);
    }
    // If the handler aborted it, nothing was written.
    if (call.isOver) {
      this.#owner.onIdle(this);
      return;
    }
    this.#call = call;
    call.connection = this;
    this.#parser.begin();
    this.#await('head_timeout');
    const { head, body } = call;
    if (body && !isWhole(body)) this.#writer = new PieceWriter(this.#socket, head, body);
    else writeWhole(this.#socket, head, body?.pieces[0]);
  }

  /** A call that waits for what does not come fails. */
  checkDeadline(): void {
    if (this.#owner.tick < this.#deadline) return;
    this.fail(new HttpClientError(this.#waitsFor, 'the server did not answer in time'));
  }

  pause(): void {
    this.#isPaused = true;
    this.#deadline = Number.POSITIVE_INFINITY;
    this.#socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#await('body_timeout');
    this.#socket.resume();
  }

  /** Ends the call, if there is one, and closes the connection. */
  fail(error: Error): void {
    const call = this.#close();
    call?.fail(error);
  }

  onHead(status: number, headers: IncomingHttpHeaders): void {
    const call = this.#call;
    if (!call) return;
    this.#await('body_timeout');
    call.handler.onResponseStart(call, status, headers);
  }

  onData(chunk: Buffer): void {
    const call = this.#call;
    if (!call) return;
    if (!this.#isPaused) this.#await('body_timeout');
    call.handler.onResponseData(call, chunk);
  }

  #await(what: 'head_timeout' | 'body_timeout'): void {
    const { tick, timeoutTicks } = this.#owner;
    this.#waitsFor = what;
    this.#deadline = tick + (what === 'head_timeout' ? timeoutTicks.head : timeoutTicks.body);
  }

  #onOpen(): void {
    // Without one, it was closed.
    if (this.#call) this.serve(this.#call);
  }

  #onDrain(): void {
    const writer = this.#writer;
    if (!writer || writer.isOver) return;
    if (this.#waitsFor === 'head_timeout') this.#await('head_timeout');
    writer.writeMore();
  }

  /** Returns whether to go on reading. */
  #read(count: number): boolean {
    if (this.#isClosed) return false;
    const read = ++reads;
    const call = this.#call;
    if (!call) {
      this.fail(unasked());
      return false;
    }
    try {
      const at = this.#parser.read(readBuffer, count);
      // Handlers read from no other connection. If one did, what was parsed after that was another answer.
      if (read !== reads) throw badResponse('it was overwritten');
      if (this.#parser.isOver) this.#complete(call, at === count);
      // Over TLS, it may come before the request.
      else if (at < count) throw unasked();
    } catch (error) {
      this.fail(error as Error);
    }
    return !this.#isClosed;
  }

  #onEnd(): void {
    if (this.#isClosed) return;
    try {
      this.#parser.finish();
      if (this.#call) this.#complete(this.#call, false);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** The answer is complete. Whatever follows it makes the connection useless: the next call could get it as its answer. */
  #complete(call: HttpCall, isClean: boolean): void {
    this.#call = undefined;
    this.#deadline = Number.POSITIVE_INFINITY;
    const isWritten = !this.#writer || this.#writer.isOver;
    if (isClean && isWritten && this.#parser.keepsAlive) {
      this.#writer = undefined;
      if (this.#isPaused) {
        this.#isPaused = false;
        this.#socket.resume();
      }
      this.#owner.onIdle(this);
    } else this.#close();
    call.end();
  }

  /** Returns the call that it still served. */
  #close(): HttpCall | undefined {
    const call = this.#call;
    this.#call = undefined;
    if (this.#isClosed) return call;
    this.#isClosed = true;
    this.#parser.stop();
    this.#owner.onClose(this);
    this.#socket.destroy();
    return call;
  }

  #onClose(): void {
    this.#writer?.close();
    this.fail(new HttpClientError('connection_closed', 'the server closed the connection early'));
  }
}

function unasked(): HttpClientError {
  return badResponse('it answers what was not asked');
}
