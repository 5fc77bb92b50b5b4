import type { ServerResponse } from 'node:http';
import type { AnswerHeaders } from './answerHeaders.ts';
import type { CallersAnswer } from './caller.ts';

/** The caller's side. Until it is taken, an error can still be told by a status. */
export class Client implements CallersAnswer {
  readonly response: ServerResponse;
  readonly headers: AnswerHeaders;
  readonly #onTaken: (() => void) | undefined;
  #isTaken = false;

  constructor(response: ServerResponse, headers: AnswerHeaders, onTaken?: () => void) {
    this.response = response;
    this.headers = headers;
    this.#onTaken = onTaken;
  }

  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** Whatever happens from now on is told in the answer. */
  take(): void {
    this.#isTaken = true;
    this.#onTaken?.();
  }
}
