import type { Message } from '../model/conversation.ts';

export interface StoredResponse {
  readonly id: string;
  /** As it is when it is finished. */
  readonly response: Readonly<Record<string, unknown>>;
  /** As it is before it starts, and before it is finished; both are epoch milliseconds. */
  readonly queued: Readonly<Record<string, unknown>>;
  readonly startsAt: number;
  readonly inProgress: Readonly<Record<string, unknown>>;
  readonly readyAt: number;
  readonly inputItems: readonly unknown[];
  /** The conversation so far, including the output. */
  readonly messages: readonly Message[];
  /** Where its tools ran, and those of the responses before it; the newest last. */
  readonly containers: readonly string[];
}

export interface ResponseStore {
  put(response: StoredResponse): void;
  get(id: string): StoredResponse | undefined;
  remove(id: string): void;
}

const MAX_RESPONSES = 10_000;

/** Retains the newest responses. */
export function createResponseStore(): ResponseStore {
  const responses = new Map<string, StoredResponse>();
  return {
    put(response) {
      responses.set(response.id, response);
      // A map is ordered by insertion.
      const [oldest] = responses.keys();
      if (responses.size > MAX_RESPONSES && oldest !== undefined) responses.delete(oldest);
    },
    get: (id) => responses.get(id),
    remove: (id) => void responses.delete(id),
  };
}
