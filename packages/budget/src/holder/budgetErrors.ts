import { microFromNano } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { definedBy, isPrincipalSubject, POLICY_SUBJECT } from '../bucketRef.ts';
import { LimitError, type RefusingCounter } from '../limitError.ts';
import type { BudgetedPolicy } from '../policies.ts';
import type { BucketFigures } from './lease.ts';

/** The field of a request that limits its output, and with it what is reserved. */
export interface OutputLimit {
  /** As the request has it, or could have it. */
  readonly field: string;
  readonly isSet: boolean;
  /** The largest limit with which the request reserves no more than this; undefined if no useful one does. */
  readonly within: (nanoUsd: bigint) => number | undefined;
}

type Figures = Pick<BucketFigures, 'limitNanoUsd' | 'spentNanoUsd'>;

export interface RefusedRequest {
  readonly estimateNanoUsd: bigint;
  /** Undefined if the request has no output, as for embeddings. */
  readonly output?: OutputLimit | undefined;
  /** Its caller may see a parent policy's figures, which include other principals' spend. */
  readonly showsParentFigures: boolean;
}

/** Spend plus this request's reservation exceed the limit: a retry helps only in another window, if at all. */
export function budgetExhausted(
  policy: BudgetedPolicy,
  figures: Figures,
  { estimateNanoUsd, output, showsParentFigures }: RefusedRequest,
): AppError {
  const { limitNanoUsd, spentNanoUsd } = figures;
  const reset = policy.windowEndMs === undefined ? null : new Date(policy.windowEndMs).toISOString();
  const mayKnow = policy.isGoverning || showsParentFigures;
  const shortage = { policy, estimateNanoUsd, output, reset };
  const { message, param } =
    mayKnow && limitNanoUsd !== undefined
      ? explained(shortage, limitNanoUsd, spentNanoUsd)
      : unexplained(shortage);
  const counter = {
    ...budgetOf(policy),
    limit: limitNanoUsd,
    spent: spentNanoUsd,
    wanted: estimateNanoUsd,
  };
  return new LimitError(counter, 'quota', 'budget_exhausted', message, {
    headers: { 'x-should-retry': 'false' },
    ...(param !== undefined && { param }),
    details: {
      estimate_micro_usd: microFromNano(estimateNanoUsd),
      ...limitFields(policy),
      ...(mayKnow && {
        policy_id: definedBy(policy.bucket).policyId,
        limit_micro_usd: limitNanoUsd === undefined ? null : microFromNano(limitNanoUsd),
        spent_micro_usd: microFromNano(spentNanoUsd),
      }),
      reset,
    },
  });
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
export function attributionRequired(limit: string, attribution: string): AppError {
  const header = HEADERS.get(attribution);
  const label = attribution.replace(/^labels\./, '');
  const send = header === undefined ? `X-Svc-Labels: ${label}=<value>` : `${header}: <value>`;
  return new AppError(
    'invalid_request',
    'attribution_required',
    `The limit ${limit} counts by ${attribution}, which this request does not name. Send the header ${send}.`,
    { param: header ?? 'X-Svc-Labels' },
  );
}

/** Which limit it is, with the caller's own value only. */
function limitFields({ limit }: BudgetedPolicy) {
  if (!limit) return {};
  const { id, name, scope, value } = limit;
  return { limit_id: id, limit: name, counter_scope: scope, value: value ?? null };
}

interface Shortage extends Pick<RefusedRequest, 'estimateNanoUsd' | 'output'> {
  readonly policy: BudgetedPolicy;
  readonly reset: string | null;
}

interface Explained {
  readonly message: string;
  /** The field to change, if that helps now. */
  readonly param: string | undefined;
}

function explained(
  { policy, estimateNanoUsd, output, reset }: Shortage,
  limitNanoUsd: bigint,
  spentNanoUsd: bigint,
): Explained {
  const whose = ownerOf(policy);
  const mayCost = `may cost ${microUsd(estimateNanoUsd)}`;
  const left = limitNanoUsd - spentNanoUsd;
  const fitting = left > 0n ? output?.within(left) : undefined;
  const param = fitting === undefined ? undefined : output?.field;
  if (estimateNanoUsd > limitNanoUsd) {
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

/** Without figures that the caller may not know; a limit that fits would tell them. */
function unexplained({ policy, estimateNanoUsd, output, reset }: Shortage): Explained {
  const smaller = output ? ` A lower ${output.field} may fit.` : '';
  const message = `What is left of the budget of ${ownerOf(policy)} does not cover this request, which may cost ${microUsd(estimateNanoUsd)}. ${whenReset(reset)}${smaller}`;
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
  if (limit)
    return limit.value === undefined
      ? `the limit ${limit.name}`
      : `the limit ${limit.name} for ${limit.scope} ${limit.value}`;
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
  const message = `Running requests hold what is left of the budget of ${whose}. Try again in a second.`;
  const options = { headers: { 'x-should-retry': 'true', 'retry-after': '1' } };
  if (!policy) return new AppError('quota', 'budget_contended', message, options);
  return new LimitError(budgetOf(policy), 'quota', 'budget_contended', message, options);
}

function budgetOf({ bucket, windowEndMs }: BudgetedPolicy): RefusingCounter {
  return { bucket, limits: 'budget', resetsAtMs: windowEndMs };
}

/** The lease is used up or expired, and the control plane does not respond, or has closed this proxy's epoch. */
export function budgetUnavailable(cause: unknown): AppError {
  const message =
    'The budget of this key cannot be checked right now: this proxy has no lease left, and the control plane is unreachable or grants it none. Try again, through another proxy if there is one.';
  return new AppError('unavailable', 'budget_unavailable', message, { cause });
}
