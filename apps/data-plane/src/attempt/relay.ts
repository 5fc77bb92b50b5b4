import { Outcome } from '@weighbridge/contracts';
import type { KeptAnswer } from '../cache/answerCapture.ts';
import type { HoldBudget } from '../formats/heldAnswer.ts';
import type { UpstreamAnswer } from '../upstream/exchange.ts';
import type { AnswerHeaders } from './answerHeaders.ts';
import type { Answered } from './attempt.ts';
import type { AttemptLog } from './attemptLog.ts';
import type { Caller } from './caller.ts';
import type { Plan } from './plan.ts';

/** What passes an answer on to its caller. */
export interface Relay extends Answered {
  readonly plan: Plan;
  readonly caller: Caller;
  readonly headers: AnswerHeaders;
  readonly requestId: string;
  readonly budget: HoldBudget;
  /** Says whose the answer is, before the caller learns its id; undefined where the vendor does not keep it. */
  readonly record: ((responseId: string) => Promise<void>) | undefined;
  /** Undefined where the answer is not to be given again. */
  readonly kept: KeptAnswer | undefined;
  /** Settled once. The caller sees the end of the answer only after that. */
  readonly attempts: Pick<AttemptLog, 'settle'>;
}

/** An answer up to this size is held until it is complete, so that its cost can stand in a header. */
export const MAX_HELD_BYTES = 1024 * 1024;

/** What else an answer has to be, its content says. */
export function isKept({ answer }: Relay, outcome: Outcome): boolean {
  return outcome === Outcome.SUCCESS && answer.status === 200;
}

export function contentTypeOf({ headers }: UpstreamAnswer): string | undefined {
  return headers['content-type']?.toString();
}

export function outcomeOf({ caller, answer }: Relay, failure: unknown, hasFailed: boolean): Outcome {
  // Where this service stopped listening, the vendor did nothing wrong.
  if (caller.hasLeft) return Outcome.CLIENT_GONE;
  if (failure) return Outcome.INTERRUPTED;
  return hasFailed || answer.status >= 300 ? Outcome.UPSTREAM_ERROR : Outcome.SUCCESS;
}
