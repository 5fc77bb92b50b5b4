import { AppError } from '@weighbridge/errors';
import { ChunkList } from '../formats/chunkList.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import type { ClientConnection } from './clientConnection.ts';
import { MAX_HELD_BYTES } from './relay.ts';

/**
 * Holds the start of a response until the owner of the stored response is recorded: only then may the client learn its id. If
 * that fails, the client gets none of the response, which is read on to learn what it cost.
 */
export class OwnershipHold {
  readonly #reader: { readonly facts: Pick<ResponseFacts, 'responseId'> };
  readonly #saveOwner: (responseId: string) => Promise<void>;
  #isSaved = false;
  #failure: unknown;
  readonly #held = new ChunkList();

  constructor(
    reader: { readonly facts: Pick<ResponseFacts, 'responseId'> },
    saveOwner: (responseId: string) => Promise<void>,
  ) {
    this.#reader = reader;
    this.#saveOwner = saveOwner;
  }

  get isSaved(): boolean {
    return this.#isSaved;
  }

  /** Why the owner was not recorded. */
  get failure(): unknown {
    return this.#failure;
  }

  /** `begin` is called before the first byte is written. */
  write(bytes: Buffer, client: ClientConnection, begin?: () => void): Promise<void> | undefined {
    if (this.#isSaved || this.#failure !== undefined) return client.write(bytes);
    // At most for as long as the request, which then returns the memory.
    client.memory.take(bytes.length);
    this.#held.add(bytes);
    const { responseId } = this.#reader.facts;
    if (responseId !== '') return this.#saveAndWrite(responseId, client, begin);
    if (this.#held.length > MAX_HELD_BYTES) this.#fail(responseIdTooLate(), client);
    return undefined;
  }

  /** The held bytes of a stream that never named its id. */
  rest(): Buffer {
    const held = Buffer.concat(this.#held.chunks);
    this.#held.clear();
    return held;
  }

  async #saveAndWrite(
    responseId: string,
    client: ClientConnection,
    begin: (() => void) | undefined,
  ): Promise<void> {
    try {
      await this.#saveOwner(responseId);
    } catch (error) {
      return this.#fail(error ?? new Error('rejected without a reason'), client);
    }
    this.#isSaved = true;
    begin?.();
    const held = this.rest();
    client.memory.release(held.length);
    await client.write(held);
  }

  #fail(error: unknown, client: ClientConnection): void {
    this.#failure = error;
    client.memory.release(this.#held.length);
    this.#held.clear();
    client.drop();
  }
}

function responseIdTooLate(): AppError {
  const message =
    'The vendor sent the id of the response too late to record its owner. The response was not delivered, but it is charged.';
  return new AppError('upstream', 'response_not_recorded', message, {
    headers: { 'x-should-retry': 'false' },
  });
}
