import { ChunkList } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { undecodable } from '../formats/contentEncoding.ts';
import type { NamedFacts } from '../formats/responseFormat.ts';
import type { AnswerOwnership } from './answerOwnership.ts';
import type { ClientConnection } from './clientConnection.ts';
import { MAX_HELD_BYTES } from './relay.ts';

/**
 * Holds what a response names until its owner is recorded: only then may the client learn of it. If the vendor stores the
 * response and that fails, the client gets none of the rest, which is read on to learn what it cost.
 */
export class OwnershipHold {
  readonly #reader: { readonly facts: NamedFacts };
  readonly #ownership: AnswerOwnership;
  /** What needs no further record passes. */
  #isOpen: boolean;
  #isSaved = false;
  #failure: unknown;
  readonly #held = new ChunkList();

  constructor(reader: { readonly facts: NamedFacts }, ownership: AnswerOwnership) {
    this.#reader = reader;
    this.#ownership = ownership;
    this.#isOpen = !ownership.requiresId;
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
    if (this.#failure !== undefined) return client.write(bytes);
    const { facts } = this.#reader;
    // What can't be read may name anything.
    if (facts.unreadable) return void this.#fail(undecodable(), client);
    const saving = this.#ownership.save(facts);
    if (saving === undefined && this.#isOpen) {
      begin?.();
      return client.write(bytes);
    }
    // At most for as long as the request, which then returns the memory.
    client.memory.take(bytes.length);
    this.#held.add(bytes);
    if (saving) return this.#saveAndWrite(saving, client, begin);
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
    saving: Promise<void>,
    client: ClientConnection,
    begin: (() => void) | undefined,
  ): Promise<void> {
    try {
      await saving;
    } catch (error) {
      return this.#fail(error ?? new Error('rejected without a reason'), client);
    }
    this.#isSaved = true;
    this.#isOpen = true;
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
