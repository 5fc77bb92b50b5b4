import type { Outcome } from '@weighbridge/contracts';
import type { AnswerFacts } from '../formats/answerFormat.ts';

/** One try at one connector, when it is over. */
export interface EndedTry {
  readonly dispatchedAt: number;
  readonly outcome: Outcome;
  /** 0 where the vendor gave none. */
  readonly status: number;
  readonly facts: AnswerFacts;
  /** Not a byte of the request went out, for whatever reason: nothing is charged for it. */
  readonly neverSent?: boolean;
  /** Monotonic, in milliseconds; undefined where not a byte came. */
  readonly firstByteAt: number | undefined;
  /** What the model wrote, and how much longer the whole of it was: for counting where the vendor did not. */
  readonly output: () => { readonly text: string; readonly ratio: number };
}
