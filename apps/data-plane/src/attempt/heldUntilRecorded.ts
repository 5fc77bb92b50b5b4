import { AppError } from '@weighbridge/errors';
import type { AnswerReader } from '../formats/answerReader.ts';
import type { Caller } from './caller.ts';
import { MAX_HELD_BYTES } from './relay.ts';

/** Of a stream that is put on record: whose it is must be, before the caller learns its id. */
export class HeldUntilRecorded {
  readonly #reader: Pick<AnswerReader, 'facts'>;
  readonly #record: (responseId: string) => Promise<void>;
  #isRecorded = false;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;

  constructor(reader: Pick<AnswerReader, 'facts'>, record: (responseId: string) => Promise<void>) {
    this.#reader = reader;
    this.#record = record;
  }

  pass(shown: Buffer, caller: Caller): Promise<void> | undefined {
    if (this.#isRecorded) return caller.write(shown);
    this.#waiting.push(shown);
    this.#waitingBytes += shown.length;
    if (this.#waitingBytes > MAX_HELD_BYTES) throw tooLargeToRecord();
    const { responseId } = this.#reader.facts;
    return responseId === '' ? undefined : this.#recordAndWrite(responseId, caller);
  }

  /** What waits still, of a stream that never told its id. */
  rest(): Buffer {
    const waiting = this.#waiting;
    this.#waiting = [];
    return Buffer.concat(waiting);
  }

  async #recordAndWrite(responseId: string, caller: Caller): Promise<void> {
    await this.#record(responseId);
    this.#isRecorded = true;
    await caller.write(this.rest());
  }
}

export function tooLargeToRecord(): AppError {
  const message = 'The response does not tell its id early enough to be recorded, so it is not given out.';
  return new AppError('upstream', 'response_not_recorded', message, {
    headers: { 'x-should-retry': 'false' },
  });
}
