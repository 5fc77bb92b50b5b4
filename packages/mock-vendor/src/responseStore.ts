import type { Message } from './conversation.ts';

/** A response as it is kept. */
export interface StoredResponse {
  readonly id: string;
  readonly response: Readonly<Record<string, unknown>>;
  readonly inputItems: readonly unknown[];
  /** The conversation so far, the answer included. */
  readonly messages: readonly Message[];
}

export interface ResponseStore {
  put(response: StoredResponse): void;
  get(id: string): StoredResponse | undefined;
  remove(id: string): void;
}

const MAX_KEPT = 10_000;

/** Keeps the newest responses. */
export function createResponseStore(): ResponseStore {
  const responses = new Map<string, StoredResponse>();
  return {
    put(response) {
      responses.set(response.id, response);
      // A map remembers the order in which it was filled.
      const [oldest] = responses.keys();
      if (responses.size > MAX_KEPT && oldest !== undefined) responses.delete(oldest);
    },
    get: (id) => responses.get(id),
    remove: (id) => void responses.delete(id),
  };
}
