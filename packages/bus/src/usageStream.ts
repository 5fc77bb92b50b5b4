/** A message of the usage stream, as it was published. */
export interface UsageMessage {
  readonly payload: Uint8Array;
  /** Of the span in which it was published (https://www.w3.org/TR/trace-context/); undefined where nothing is traced. */
  readonly traceparent?: string | undefined;
}

/** Where the stream holds a message. */
export interface Stored {
  /** Which stream it is: another one once the stream was deleted and created anew. */
  readonly streamId: string;
  /** Its place, counted over all shards. Of one stream, a later message has a higher one, unless the store lost some. */
  readonly sequence: bigint;
}

/** Where the stream stands: what a publisher needs to find out whether something was lost. */
export interface StreamPosition {
  readonly streamId: string;
  /** Sequence of the newest message; 0 before the first. */
  readonly lastSequence: bigint;
  /** By shard: all of the shard's messages up to this sequence are handled. */
  readonly handledUpTo: readonly bigint[];
}

/** Reading of one shard, or of confirms, until stopped. */
export interface Consumption {
  /**
   * Waits for the batch at hand, and takes no further messages from a stream that keeps them: what was not handled is
   * delivered to the next reader.
   */
  stop(): Promise<void>;
}

/** The transport from proxies to metering. It delivers at least once; counting once is the ledger's part. */
export interface UsageStream {
  /**
   * Resolves once the stream holds the message. Rejects when it can't be stored within a time-out: publish it again,
   * unless it is a MessageTooLargeError. A message that is sent anew for another reason needs another id: for two minutes
   * the stream may take one of the same id for a repetition, and answer where the first one was.
   */
  publish(shard: number, messageId: string, payload: Uint8Array, traceparent?: string): Promise<Stored>;

  /**
   * Hands batches to `handle`, one at a time, and forgets each message when the promise resolves. When it rejects, the
   * batch is delivered again, and the shard waits: a second at first, up to 15 seconds while it goes on. Several
   * consumptions of a shard, here or in other processes, share its messages.
   */
  consume(shard: number, handle: (batch: readonly UsageMessage[]) => Promise<void>): Promise<Consumption>;

  /** Rejects when it can't be learnt within a time-out. */
  position(): Promise<StreamPosition>;

  /** Tells all that listen for this producer. Best effort: nothing is kept for those who don't listen now. */
  confirm(producerId: string, payload: Uint8Array): void;
  onConfirm(producerId: string, handle: (payload: Uint8Array) => void): Consumption;

  /** Asks for confirms. Best effort; one of those that listen gets the question. */
  askConfirm(payload: Uint8Array): void;
  onConfirmQuery(handle: (payload: Uint8Array) => void): Consumption;

  /** Tells whoever wants to know, on `events.v1.<name>`. Best effort: nothing is kept. */
  announce(name: string, payload: Uint8Array): void;

  /** Called whenever the connection to the stream came back: confirms may have been missed. */
  onReconnect(handle: () => void): Consumption;

  close(): Promise<void>;
}

export interface UsageStreamEvents {
  /** A failure that the stream recovers from by itself: a batch that was not handled, a connection lost. */
  readonly onError: (error: unknown, what: string) => void;
}

/** The message is larger than the stream ever takes: it does not help to publish it again. */
export class MessageTooLargeError extends Error {
  override readonly name = 'MessageTooLargeError';
}

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;

/** How long a shard waits after its latest batches, this many in a row, were not handled. */
export const pauseAfter = (failures: number): number =>
  Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), LONGEST_PAUSE_MS);
