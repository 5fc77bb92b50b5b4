import { setImmediate as endOfTurn } from 'node:timers/promises';
import { ChunkList } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { undecodable } from '../formats/contentEncoding.ts';
import type { NamedFacts } from '../formats/responseFormat.ts';
import type { AnswerOwnership } from './answerOwnership.ts';
import type { ClientConnection } from './clientConnection.ts';
import { MAX_HELD_BYTES } from './relay.ts';

/** What waits for a record before the vendor has to wait too. */
const MAX_WAITING_BYTES = 64 * 1024;

/**
 * Holds what a response names until its owner is recorded: only then may the client learn of it. If the vendor stores the
 * response and that fails, the client gets none of the rest, which is read on to learn what it cost.
 *
 * All that arrives in one turn of the event loop is recorded by one write; what arrives during a write, by the next one.
 */
export class OwnershipHold {
  readonly #reader: { readonly facts: NamedFacts };
  readonly #ownership: AnswerOwnership;
  /** What needs no further record passes. */
  #isOpen: boolean;
  #isSaved = false;
  #failure: unknown;
  /** Set from the end of the turn that named something until all that came meanwhile is recorded and written. */
  #saving: Promise<void> | undefined;
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

  /** Bytes that were given to `write` wait for a record. */
  get isSaving(): boolean {
    return this.#saving !== undefined;
  }

  /** `begin` is called before the first byte is written. Returns a promise if the vendor has to wait. */
  write(bytes: Buffer, client: ClientConnection, begin?: () => void): Promise<void> | undefined {
    if (this.#failure !== undefined) return client.write(bytes);
    const { facts } = this.#reader;
    // What can't be read may name anything.
    if (facts.unreadable) return void this.#fail(undecodable(), client);
    if (facts.objects?.isFull) return void this.#fail(tooManyNamed(), client);
    const isNew = this.#ownership.isNew(facts);
    if (!isNew && this.#isOpen && !this.#saving) {
      begin?.();
      return client.write(bytes);
    }
    // At most for as long as the request, which then returns the memory.
    client.memory.take(bytes.length);
    this.#held.add(bytes);
    if (isNew) this.#saving ??= this.#saveAndWrite(client, begin);
    if (this.#saving) return this.#held.length > MAX_WAITING_BYTES ? this.#saving : undefined;
    if (this.#held.length > MAX_HELD_BYTES) this.#fail(responseIdTooLate(), client);
    return undefined;
  }

  /** Resolves once nothing waits for a record; undefined if nothing does. */
  saved(): Promise<void> | undefined {
    return this.#saving;
  }

  /** The held bytes of a stream that never named its id. */
  rest(): Buffer {
    const held = Buffer.concat(this.#held.chunks);
    this.#held.clear();
    return held;
  }

  async #saveAndWrite(client: ClientConnection, begin: (() => void) | undefined): Promise<void> {
    try {
      do {
        await endOfTurn();
        if (this.#failure !== undefined) return;
        // All that is held was read: its names are among the facts.
        const held = this.rest();
        try {
          await this.#ownership.save(this.#reader.facts);
        } finally {
          client.memory.release(held.length);
        }
        this.#isSaved = true;
        this.#isOpen = true;
        begin?.();
        await client.write(held);
      } while (this.#held.length > 0);
    } catch (error) {
      this.#fail(error ?? new Error('rejected without a reason'), client);
    } finally {
      this.#saving = undefined;
    }
  }

  #fail(error: unknown, client: ClientConnection): void {
    this.#failure = error;
    client.memory.release(this.#held.length);
    this.#held.clear();
    client.drop();
  }
}

/** Of an answer that names more objects than are recorded. */
export function tooManyNamed(): AppError {
  const message =
    'The response names more objects than their owner is recorded of, so it was not delivered, but it is charged.';
  return new AppError('upstream', 'response_not_recorded', message, {
    headers: { 'x-should-retry': 'false' },
  });
}

function responseIdTooLate(): AppError {
  const message =
    'The vendor sent the id of the response too late to record its owner. The response was not delivered, but it is charged.';
  return new AppError('upstream', 'response_not_recorded', message, {
    headers: { 'x-should-retry': 'false' },
  });
}
