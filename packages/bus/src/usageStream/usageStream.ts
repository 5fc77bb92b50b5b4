/** A message of the usage stream, as it was published. */
export interface UsageMessage {
  /**
   * Whose usage the sender was allowed to send; undefined in the stream of release 0.1.0, which does not say. What the payload says
   * of it is the sender's word.
   */
  readonly producerId: string | undefined;
  readonly payload: Uint8Array;
  /** The publisher's span (https://www.w3.org/TR/trace-context/); undefined without tracing. */
  readonly traceparent?: string | undefined;
}

/** The position of a message in the stream. */
export interface MessagePosition {
  /** Changes when the stream is deleted and created again. */
  readonly streamId: string;
  /** Counts over all shards, and grows within one stream unless its storage lost messages. */
  readonly sequence: bigint;
}

/** The state of the stream, from which a publisher finds out whether it lost messages. */
export interface StreamPosition {
  readonly streamId: string;
  /** The sequence of the newest message; 0 before the first. */
  readonly lastSequence: bigint;
  /** By shard, of those asked for: all messages of the shard up to this sequence are handled. */
  readonly handledUpTo: readonly bigint[];
}

export interface Subscription {
  /**
   * Waits for the current batch, and takes no further messages from a persistent stream: those that were not handled are
   * delivered to the next reader.
   */
  stop(): Promise<void>;
}

/** The transport from proxies to metering. Delivery is at least once; the ledger removes duplicates. */
export interface UsageStream {
  /**
   * Resolves once the stream has stored the message. Rejects when that does not happen within a time-out: publish it
   * again, unless the error is a MessageTooLargeError. Only a retry may reuse a message id: for two minutes the stream may
   * take a second message of the same id for a duplicate, and return the position of the first.
   */
  publish(
    shard: number,
    producerId: string,
    messageId: string,
    payload: Uint8Array,
    traceparent?: string,
  ): Promise<MessagePosition>;

  /**
   * Passes batches to `handle`, one at a time, and removes a batch's messages when the promise resolves. When it rejects,
   * the batch is delivered again after a pause of 1 second, which doubles up to 15 seconds while `handle` keeps failing.
   * Several subscriptions of a shard, in one process or several, share its messages.
   */
  consume(shard: number, handle: (batch: readonly UsageMessage[]) => Promise<void>): Promise<Subscription>;

  /** With the first `shards` shards; default `USAGE_SHARDS`. Rejects when the stream does not respond within a time-out. */
  position(shards?: number): Promise<StreamPosition>;

  /** The shards that someone reads or has read, and those whose messages wait. Rejects as `position` does. */
  shardsInUse(): Promise<readonly number[]>;

  /** Sends an ack to every listener of this producer. Best effort: it is not stored for those who listen later. */
  sendAck(producerId: string, payload: Uint8Array): void;
  onAck(producerId: string, handle: (payload: Uint8Array) => void): Subscription;

  /** Asks one of the listeners of `onAckRequest` for acks. Best effort. */
  requestAck(payload: Uint8Array): void;
  onAckRequest(handle: (payload: Uint8Array) => void): Subscription;

  /** Passes refused requests to one of the listeners of `onRefusals`. Best effort: it is not stored; an ack follows by `sendAck`. */
  sendRefusals(producerId: string, payload: Uint8Array): void;
  /** `producerId`: whose refusals the sender was allowed to send. */
  onRefusals(handle: (payload: Uint8Array, producerId: string) => void): Subscription;

  /** Publishes a notification on `events.v1.<name>`. Best effort: it is not stored. */
  announce(name: string, payload: Uint8Array): void;

  /** Called after each reconnection: acks may have been missed. */
  onReconnect(handle: () => void): Subscription;

  close(): Promise<void>;
}

export interface UsageStreamEvents {
  /** A failure from which the stream recovers by itself, such as a lost connection. */
  readonly onError: (error: unknown, what: string) => void;
}

/** The message is larger than the stream accepts: publishing it again fails too. */
export class MessageTooLargeError extends Error {
  override readonly name = 'MessageTooLargeError';
}

export const BATCH_FAILED = 'failed to handle a batch of usage; retrying';
export const LISTENER_FAILED = 'failed to handle a usage ack';

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;

/** How long a shard pauses after this many failures in a row. */
export const pauseAfter = (failures: number): number =>
  Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), LONGEST_PAUSE_MS);
