import type { ServerResponse } from 'node:http';
import type { Slotted } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { clientGone } from '@weighbridge/runtime';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import { Cancellation } from '../upstream/cancellation.ts';
import type { ResponseHeaders } from './responseHeaders.ts';

/** How long a vendor is still read after its client disconnected, to learn the usage that it reports at the end. */
export interface DrainLimits {
  /** A client that takes no byte for this long counts as disconnected. */
  readonly stalledMs: number;
  readonly drainMs: number;
  readonly drainBytes: number;
}

/** Of a response that can't be delivered; none of it is kept. */
const MAX_UNDELIVERED_BYTES = 64 * 1024 * 1024;

/** The client's side of a request: whether it is still connected, and how fast it reads. */
export class ClientConnection implements Slotted {
  slot = -1;
  readonly response: ServerResponse;
  /** The headers that this service adds to any response. */
  readonly headers: ResponseHeaders;
  /** What the request holds in memory: its body, and what is held of its response. */
  readonly memory: HeldMemory;
  /**
   * Cancelled once the client disconnected, at once or at the drain limits, and when the service ends; the reason is an AppError
   * if the client is still connected and can be sent it.
   */
  readonly cancellation = new Cancellation();
  readonly #limits: DrainLimits;
  #isCommitted = false;
  #hasDisconnected = false;
  #hasWritten = false;
  #dropsBytes = false;
  #cancelsIfLeft: (() => boolean) | undefined;
  #drainedBytes = 0;
  #maxDrainedBytes: number;
  #onDisconnect: (() => void) | undefined;
  #drainTimer: NodeJS.Timeout | undefined;
  #wake: (() => void) | undefined;

  constructor(response: ServerResponse, headers: ResponseHeaders, limits: DrainLimits, memory: HeldMemory) {
    this.response = response;
    this.headers = headers;
    this.memory = memory;
    this.#limits = limits;
    this.#maxDrainedBytes = limits.drainBytes;
    response.on('close', this.#onClose);
    // A socket that fails closes too; without a listener the error would end the process.
    response.on('error', this.#onDrain);
    if (response.destroyed) this.#onClose();
  }

  /** The relay, or the cache, writes the response: an error can no longer be sent as a status by anyone else. */
  get isCommitted(): boolean {
    return this.#isCommitted;
  }

  commit(): void {
    this.#isCommitted = true;
  }

  /** The client closed the connection before the response was complete. */
  get hasDisconnected(): boolean {
    return this.#hasDisconnected;
  }

  /** What is written is dropped: no one gets it, and the vendor is only read for the usage that it reports. */
  get dropsBytes(): boolean {
    return this.#dropsBytes;
  }

  /**
   * The response can't be delivered. The vendor is read on all the same, within limits, since it bills the response; the
   * client waits for the error meanwhile.
   */
  drop(): void {
    if (this.#dropsBytes) return;
    this.#maxDrainedBytes = MAX_UNDELIVERED_BYTES;
    this.#beginDrain();
  }

  /** Called if the client disconnects from now on, or the response can't be delivered. */
  onDisconnect(listener: () => void): void {
    this.#onDisconnect = listener;
  }

  /**
   * Whether a disconnect, also one that has been, ends the vendor's work at once: there, what is not generated is not billed. It is
   * asked once the client has left.
   */
  cancelIfLeft(isCancelled: (() => boolean) | undefined): void {
    this.#cancelsIfLeft = isCancelled;
    if (isCancelled && this.#hasDisconnected && isCancelled()) this.cancellation.cancel();
  }

  /** After a disconnect, no more than this is read: a vendor that goes on has ignored the limits of the request. */
  boundDrain(bytes: number): void {
    this.#maxDrainedBytes = Math.min(this.#limits.drainBytes, bytes);
  }

  /** Throws if the client disconnected or the service ends: what was not sent yet costs nothing. */
  assertWaiting(): void {
    this.cancellation.throwIfCancelled();
    if (this.#hasDisconnected) throw clientGone();
  }

  /** Writes as fast as the client reads; a promise if it has to catch up first. Drops the bytes once it disconnected. */
  write(bytes: Buffer): Promise<void> | undefined {
    if (this.#dropsBytes) {
      this.#drainedBytes += bytes.length;
      if (this.#drainedBytes > this.#maxDrainedBytes) this.cancellation.cancel();
      return undefined;
    }
    if (bytes.length === 0) return undefined;
    this.#hasWritten = true;
    if (this.response.write(bytes)) return undefined;
    return this.#caughtUp(bytes.length);
  }

  /** Sends the head of the response, unless bytes of the body have taken it along. */
  flushHead(): void {
    if (!this.#hasWritten && !this.#hasDisconnected) this.response.flushHeaders();
  }

  /** Closes the connection of a client that stops reading: the vendor's connection, and its memory, would wait with it. */
  #caughtUp(bytes: number): Promise<void> {
    const { response, memory } = this;
    // The socket holds them now, for as long as the client likes.
    memory.take(bytes);
    // The socket's own time-out tells a slow reader from one that does not read at all.
    response.setTimeout(this.#limits.stalledMs, this.#onStalled);
    response.once('drain', this.#onDrain);
    return new Promise((resolve) => {
      this.#wake = () => {
        response.off('timeout', this.#onStalled);
        response.off('drain', this.#onDrain);
        response.setTimeout(0);
        memory.release(bytes);
        resolve();
      };
    });
  }

  /** Resolves after `ms`, or as soon as the client disconnects or the service ends. Only before anything is written. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#hasDisconnected || this.cancellation.isCancelled) return resolve();
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Resolves once `event` has happened; otherwise as `pause`. */
  async waitFor(event: Promise<unknown>, ms: number): Promise<void> {
    const pausing = this.pause(ms);
    const wake = this.#wake;
    void event.finally(() => {
      if (this.#wake === wake) this.#wake = undefined;
      wake?.();
    });
    await pausing;
  }

  /** The service ends: stops waiting for the vendor and for a client that does not read. */
  abort(): void {
    const message = 'The service is shutting down and cut the response off. Try again.';
    const reason = new AppError('unavailable', 'shutting_down', message);
    this.cancellation.cancel(this.#hasDisconnected ? undefined : reason);
    this.#onDrain();
  }

  /** To be called once the request is settled: a later disconnect concerns no one. Frees its memory once the client has all. */
  release(): void {
    clearTimeout(this.#drainTimer);
    const { response, memory } = this;
    response.off('close', this.#onClose);
    const isSent = response.writableEnded && response.writableLength === 0;
    if (memory.bytes === 0 || isSent || response.destroyed) memory.close();
    else response.once('close', () => memory.close());
  }

  readonly #onDrain = (): void => {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  };

  readonly #onStalled = (): void => {
    this.response.destroy();
  };

  #beginDrain(): void {
    this.#dropsBytes = true;
    this.#drainTimer ??= setTimeout(() => this.cancellation.cancel(), this.#limits.drainMs);
    this.#onDisconnect?.();
  }

  readonly #onClose = (): void => {
    this.#onDrain();
    if (this.response.writableFinished || this.#hasDisconnected) return;
    this.#hasDisconnected = true;
    this.#beginDrain();
    if (this.#cancelsIfLeft?.()) this.cancellation.cancel();
  };
}
