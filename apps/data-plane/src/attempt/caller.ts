import type { ServerResponse } from 'node:http';
import { AppError } from '@weighbridge/errors';
import type { Slotted } from '../shared/intrusiveSet.ts';
import { Cancellation } from '../upstream/cancellation.ts';
import type { AnswerHeaders } from './answerHeaders.ts';

/** How far a vendor is listened to whose caller has left, to learn what it counted. */
export interface DrainCap {
  /** A caller that takes nothing for so long has left. */
  readonly stalledMs: number;
  readonly drainMs: number;
  readonly drainBytes: number;
}

/** Where its answer goes. */
export interface CallersAnswer {
  readonly response: ServerResponse;
  readonly headers: AnswerHeaders;
}

/** The caller's side of a request: whether it is still there, and how fast it reads. */
export class Caller implements Slotted {
  slot = -1;
  readonly response: ServerResponse;
  /** Of this service's own, for whatever the answer will be. */
  readonly headers: AnswerHeaders;
  /**
   * Told when it has left and the vendor was listened to for as long as the cap allows; and when the service ends, with an
   * AppError as the reason where the caller is still there to be told.
   */
  readonly cancellation = new Cancellation();
  readonly #cap: DrainCap;
  #left = false;
  #drained = 0;
  #timer: NodeJS.Timeout | undefined;
  #wake: (() => void) | undefined;

  constructor({ response, headers }: CallersAnswer, cap: DrainCap) {
    this.response = response;
    this.headers = headers;
    this.#cap = cap;
    response.on('close', this.#onClose);
    // A socket that fails closes too; unheard, the error would end the process.
    response.on('error', this.#onDrain);
    if (response.destroyed) this.#onClose();
  }

  /** It closed the connection before the answer was complete. */
  get hasLeft(): boolean {
    return this.#left;
  }

  /** Throws where it has left, or the service ends: what was not sent yet, nobody needs to pay for. */
  requireWaiting(): void {
    this.cancellation.throwIfCancelled();
    if (this.#left)
      throw new AppError('unavailable', 'caller_left', 'The caller left before anything was sent.');
  }

  /** Writes as fast as the caller reads; a promise where it has to catch up first. To one that left, nothing. */
  write(bytes: Buffer): Promise<void> | undefined {
    if (this.#left) {
      this.#drained += bytes.length;
      if (this.#drained > this.#cap.drainBytes) this.cancellation.cancel();
      return undefined;
    }
    if (bytes.length === 0 || this.response.write(bytes)) return undefined;
    return this.#caughtUp();
  }

  /** Ends the connection of a caller that takes nothing: with it, its vendor's and all that it holds would wait. */
  #caughtUp(): Promise<void> {
    const { response } = this;
    // Of the socket's own making, as that tells a slow reader from one that does not read at all.
    response.setTimeout(this.#cap.stalledMs, this.#onStalled);
    response.once('drain', this.#onDrain);
    return new Promise((resolve) => {
      this.#wake = () => {
        response.off('timeout', this.#onStalled);
        response.off('drain', this.#onDrain);
        response.setTimeout(0);
        resolve();
      };
    });
  }

  /** Resolves after so long, or as soon as it leaves or the service ends. To be called before anything is written. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#left || this.cancellation.isCancelled) return resolve();
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** The service ends: neither the vendor nor a caller that does not read is waited for any longer. */
  cut(): void {
    const message = 'The service is shutting down, and the answer was cut off. Try again.';
    this.cancellation.cancel(this.#left ? undefined : new AppError('unavailable', 'shutting_down', message));
    this.#onDrain();
  }

  /** To be called once the answer was settled: what the caller does then is its own business. */
  release(): void {
    clearTimeout(this.#timer);
    this.response.off('close', this.#onClose);
  }

  readonly #onDrain = (): void => {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  };

  readonly #onStalled = (): void => {
    this.response.destroy();
  };

  readonly #onClose = (): void => {
    this.#onDrain();
    if (this.response.writableFinished || this.#left) return;
    this.#left = true;
    this.#timer = setTimeout(() => this.cancellation.cancel(), this.#cap.drainMs);
  };
}
