import { microFromNano } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import {
  type BucketRef,
  type CountUnit,
  definedBy,
  isOfAttribution,
  isPrincipalSubject,
  OTHERS_SUBJECT,
  POLICY_SUBJECT,
  UNKNOWN_SUBJECT,
} from '../bucketRef.ts';
import { BUDGET_CONTENDED, BUDGET_UNAVAILABLE, LimitError, type RefusingCounter } from '../limitError.ts';
import { limitFields, nameOfLimit, startOfSentence } from '../limitWords.ts';
import type { BudgetedPolicy } from '../policies.ts';
import type { BucketFigures } from './lease.ts';

/** The field of a request that limits its output, and with it what is reserved. */
export interface OutputLimit {
  /** As the request has it, or could have it. */
  readonly field: string;
  readonly isSet: boolean;
  /** The largest limit with which the request reserves no more than so many nano-USD, or of what `unit` counts; undefined if no useful one does. */
  readonly within: (amount: bigint, unit?: CountUnit) => number | undefined;
}

type Figures = Pick<BucketFigures, 'limitNanoUsd' | 'spentNanoUsd'>;

export interface RefusedRequest {
  /** What it reserves: nano-USD, or what else the limit counts. */
  readonly estimate: bigint;
  /** Undefined if the request has no output, as for embeddings. */
  readonly output?: OutputLimit | undefined;
  /** Other models than the one that it asks for may answer it, or work on the response. Default: none. */
  readonly namesOtherModels?: boolean;
  /** Its caller may see a parent policy's figures, which include other principals' spend. */
  readonly showsParentFigures: boolean;
}

/** Spend plus this request's reservation exceed the limit: a retry helps only in another window, if at all. */
export function budgetExhausted(
  policy: BudgetedPolicy,
  figures: Figures,
  { estimate, output, namesOtherModels = false, showsParentFigures }: RefusedRequest,
): AppError {
  const { limitNanoUsd, spentNanoUsd } = figures;
  const reset = policy.windowEndMs === undefined ? null : new Date(policy.windowEndMs).toISOString();
  const { limit, bucket } = policy;
  // By a value that any key may name, a caller would learn what the customers of others spend.
  const isShared = limit !== undefined && isOfAttribution(bucket.subject);
  const mayKnow = (policy.isGoverning && !isShared) || showsParentFigures;
  const shortage = { policy, estimate, output, reset };
  const unit = policy.limit?.unit;
  const { message: reason, param } =
    mayKnow && limitNanoUsd !== undefined
      ? unit === undefined
        ? explained(shortage, limitNanoUsd, spentNanoUsd)
        : countExplained({ ...shortage, unit }, limitNanoUsd, spentNanoUsd)
      : unexplained(shortage);
  const message = reason + whyOthers(policy) + (namesOtherModels ? whyCounted(policy) : '');
  const counter = {
    ...budgetOf(policy),
    limit: limitNanoUsd,
    spent: spentNanoUsd,
    wanted: estimate,
  };
  return new LimitError(counter, 'quota', EXHAUSTED_CODES[counter.limits], message, {
    headers: { 'x-should-retry': 'false' },
    ...(param !== undefined && { param }),
    details: {
      [`estimate_${unit ?? 'micro_usd'}`]: shownAmount(estimate, unit),
      ...limitFields(policy.limit),
      ...((policy.isGoverning || showsParentFigures) && { policy_id: definedBy(bucket).policyId }),
      ...(mayKnow && {
        [`limit_${unit ?? 'micro_usd'}`]: limitNanoUsd === undefined ? null : shownAmount(limitNanoUsd, unit),
        [`spent_${unit ?? 'micro_usd'}`]: shownAmount(spentNanoUsd, unit),
      }),
      reset,
    },
  });
}

const EXHAUSTED_CODES = {
  budget: 'budget_exhausted',
  limit_requests: 'request_limit_exhausted',
  limit_tokens: 'token_limit_exhausted',
} as const;

/** Micro-USD, requests or tokens. */
function shownAmount(amount: bigint, unit: CountUnit | undefined): number {
  return unit ? Number(amount) : microFromNano(amount);
}

const HEADERS: ReadonlyMap<string, string> = new Map([
  ['user', 'X-Svc-User'],
  ['team', 'X-Svc-Team'],
  ['project', 'X-Svc-Project'],
  ['env', 'X-Svc-Env'],
  ['namespace', 'X-Svc-Namespace'],
  ['workload', 'X-Svc-Workload'],
  ['session', 'X-Svc-Session-Id'],
]);

/** A request lacks the attribution, such as `user` or `labels.tier`, without which a further limit lets none pass. */
export function attributionRequired(limit: string, bucket: BucketRef, attribution: string): AppError {
  const header = HEADERS.get(attribution);
  const label = attribution.replace(/^labels\./, '');
  const send = header === undefined ? `X-Svc-Labels: ${label}=<value>` : `${header}: <value>`;
  const { limitId } = definedBy(bucket);
  return new LimitError(
    { bucket: { ...bucket, subject: UNKNOWN_SUBJECT }, name: limit, limits: 'budget' },
    'invalid_request',
    'attribution_required',
    `The limit ${limit} counts by ${attribution}, which this request does not name. Send the header ${send}.`,
    { param: header ?? 'X-Svc-Labels', details: { limit_id: limitId, limit } },
  );
}

/** Why a request counts in `others`, and what can be done about it. */
function whyOthers({ limit, bucket: { subject } }: BudgetedPolicy): string {
  if (!limit || subject !== OTHERS_SUBJECT) return '';
  return ` This key has named as many values of ${limit.scope} as max_counters of the limit allows in a window, so further ones share this counter: ask an operator to raise max_counters or others_limit_micro_usd.`;
}

/** Why a limit by model may count a request for another one. */
function whyCounted({ limit }: BudgetedPolicy): string {
  if (!limit || limit.models.length === 0) return '';
  const [first, ...others] = limit.models;
  const patterns = others.length > 0 ? `${first} and ${others.length} more patterns` : `${first}`;
  return ` This limit counts models by ${patterns}. It counts this request, because the request names other models beside its own: ask for one model, without others, to count in the limits of that one only.`;
}

interface Shortage extends Pick<RefusedRequest, 'estimate' | 'output'> {
  readonly policy: BudgetedPolicy;
  readonly reset: string | null;
}

interface Explained {
  readonly message: string;
  /** The field to change, if that helps now. */
  readonly param: string | undefined;
}

function explained(
  { policy, estimate, output, reset }: Shortage,
  limitNanoUsd: bigint,
  spentNanoUsd: bigint,
): Explained {
  const whose = ownerOf(policy);
  const mayCost = `may cost ${microUsd(estimate)}`;
  const left = limitNanoUsd - spentNanoUsd;
  const fitting = left > 0n ? output?.within(left) : undefined;
  const param = fitting === undefined ? undefined : output?.field;
  if (estimate > limitNanoUsd) {
    const advice = adviceFor(output, fitting ?? output?.within(limitNanoUsd));
    const message = `This request ${mayCost}, more than the whole budget of ${whose} (${microUsd(limitNanoUsd)}): waiting does not help. ${advice}, or ask an operator to raise the limit.`;
    return { message, param };
  }
  if (left <= 0n) {
    const message = `The budget of ${whose} is used up: ${microUsd(spentNanoUsd)} of ${microUsd(limitNanoUsd)} are spent. ${whenReset(reset)}`;
    return { message, param };
  }
  const message = `What is left of the budget of ${whose} (${microUsd(left)}) does not cover this request, which ${mayCost}. ${adviceFor(output, fitting)}. ${whenReset(reset)}`;
  return { message, param };
}

/** Of a limit of requests or tokens. */
function countExplained(
  { policy, estimate, output, reset, unit }: Shortage & { readonly unit: CountUnit },
  limit: bigint,
  spent: bigint,
): Explained {
  const whose = ownerOf(policy);
  const left = limit - spent;
  if (unit === 'requests' || (left <= 0n && estimate <= limit)) {
    const message = `${startOfSentence(whose)} is used up: ${spent} of ${limit} ${unit} are spent. ${whenReset(reset)}`;
    return { message, param: undefined };
  }
  const fitting = left > 0n ? output?.within(left, unit) : undefined;
  const param = fitting === undefined ? undefined : output?.field;
  const mayUse = `may use ${estimate} tokens`;
  if (estimate > limit) {
    const advice = adviceFor(output, fitting ?? output?.within(limit, unit));
    const message = `This request ${mayUse}, more than all of ${whose} (${limit} tokens): waiting does not help. ${advice}, or ask an operator to raise the limit.`;
    return { message, param };
  }
  const message = `What is left of ${whose} (${left} tokens) does not cover this request, which ${mayUse}. ${adviceFor(output, fitting)}. ${whenReset(reset)}`;
  return { message, param };
}

/** Without figures that the caller may not know; a limit that fits would tell them. */
function unexplained({ policy, estimate, output, reset }: Shortage): Explained {
  const unit = policy.limit?.unit;
  if (unit === 'requests') {
    return {
      message: `${startOfSentence(ownerOf(policy))} is used up. ${whenReset(reset)}`,
      param: undefined,
    };
  }
  const smaller = output ? ` A lower ${output.field} may fit.` : '';
  const left = `What is left of ${unit ? '' : 'the budget of '}${ownerOf(policy)}`;
  const need = unit ? `may use ${estimate} tokens` : `may cost ${microUsd(estimate)}`;
  const message = `${left} does not cover this request, which ${need}. ${whenReset(reset)}${smaller}`;
  return { message, param: undefined };
}

function adviceFor(output: OutputLimit | undefined, fitting: number | undefined): string {
  if (!output || fitting === undefined) return 'Send a shorter input';
  return `${output.isSet ? 'Lower' : 'Set'} ${output.field} to about ${fitting}, or send a shorter input`;
}

function whenReset(reset: string | null): string {
  return reset ? `It resets at ${reset}.` : 'It has no reset: ask an operator to raise it.';
}

/** Whose budget it is: other keys may have spent one that is shared. */
function ownerOf({ isGoverning, bucket: { subject }, limit }: BudgetedPolicy): string {
  if (limit) return nameOfLimit(limit, subject);
  if (!isGoverning) return 'a parent policy';
  if (subject === POLICY_SUBJECT) return "this key's policy, for all keys below it";
  return isPrincipalSubject(subject) ? "this key's principal, for all its keys" : 'this key';
}

function microUsd(nanoUsd: bigint): string {
  return `${microFromNano(nanoUsd)} micro-USD`;
}

/** There is headroom, but running requests hold it. */
export function budgetContended(policy: BudgetedPolicy | undefined): AppError {
  const whose = policy ? ownerOf(policy) : 'this key';
  const what = policy?.limit?.unit ? whose : `the budget of ${whose}`;
  const message = `Running requests hold what is left of ${what}. Try again in a second.`;
  const options = { headers: { 'x-should-retry': 'true', 'retry-after': '1' } };
  if (!policy) return new AppError('quota', BUDGET_CONTENDED, message, options);
  return new LimitError(budgetOf(policy), 'quota', BUDGET_CONTENDED, message, options);
}

function budgetOf({ bucket, windowEndMs, limit }: BudgetedPolicy) {
  const limits = limit?.unit ? (`limit_${limit.unit}` as const) : 'budget';
  return { bucket, name: limit?.name, limits, resetsAtMs: windowEndMs } satisfies RefusingCounter;
}

/**
 * The lease is used up or expired, and the control plane does not respond, or has closed this proxy's epoch. `limit`: the further limit that
 * lacks a lease, if no policy's own budget does.
 */
export function budgetUnavailable(cause: unknown, limit?: BudgetedPolicy): AppError {
  const whose = limit ? ownerOf(limit) : 'this key';
  const message = `The budget of ${whose} cannot be checked right now: this proxy has no lease left, and the control plane is unreachable or grants it none. Try again, through another proxy if there is one.`;
  if (!limit) return new AppError('unavailable', BUDGET_UNAVAILABLE, message, { cause });
  return new LimitError(budgetOf(limit), 'unavailable', BUDGET_UNAVAILABLE, message, { cause });
}
