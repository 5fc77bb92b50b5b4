/** A message of the usage stream, as it was published. */
export interface UsageMessage {
  readonly payload: Uint8Array;
}

/** Reading of one shard, until stopped. */
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
   * unless it is a MessageTooLargeError.
   */
  publish(shard: number, messageId: string, payload: Uint8Array): Promise<void>;

  /**
   * Hands batches to `handle`, one at a time, and forgets each message when the promise resolves.
   * When it rejects, the batch is delivered again after a pause.
   */
  consume(shard: number, handle: (batch: readonly UsageMessage[]) => Promise<void>): Promise<Consumption>;

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

export const MAX_BATCH_MESSAGES = 100;
export const REDELIVERY_PAUSE_MS = 1_000;
