import { AppError } from '@weighbridge/errors';
import type { StreamReader } from '../formats/streamReader.ts';
import type { ClientConnection } from './clientConnection.ts';
import { MAX_HELD_BYTES } from './relay.ts';

/** Holds the start of a stream until the owner of the stored response is recorded: only then may the client learn its id. */
export class OwnershipHold {
  readonly #reader: Pick<StreamReader, 'facts'>;
  readonly #saveOwner: (responseId: string) => Promise<void>;
  #isSaved = false;
  #held: Buffer[] = [];
  #heldBytes = 0;

  constructor(reader: Pick<StreamReader, 'facts'>, saveOwner: (responseId: string) => Promise<void>) {
    this.#reader = reader;
    this.#saveOwner = saveOwner;
  }

  write(bytes: Buffer, client: ClientConnection): Promise<void> | undefined {
    if (this.#isSaved) return client.write(bytes);
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
    if (this.#heldBytes > MAX_HELD_BYTES) throw responseIdTooLate();
    const { responseId } = this.#reader.facts;
    return responseId === '' ? undefined : this.#saveAndWrite(responseId, client);
  }

  /** The held bytes of a stream that never named its id. */
  rest(): Buffer {
    const held = this.#held;
    this.#held = [];
    return Buffer.concat(held);
  }

  async #saveAndWrite(responseId: string, client: ClientConnection): Promise<void> {
    await this.#saveOwner(responseId);
    this.#isSaved = true;
    await client.write(this.rest());
  }
}

export function responseIdTooLate(): AppError {
  const message =
    'The vendor sent the id of the response too late to record its owner. The response was not delivered, but it is charged.';
  return new AppError('upstream', 'response_not_recorded', message, {
    headers: { 'x-should-retry': 'false' },
  });
}
