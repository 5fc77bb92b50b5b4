import {
  type BucketRef,
  type BudgetedPolicy,
  definedBy,
  OTHERS_SUBJECT,
  type RateLimitedPolicy,
} from '@weighbridge/budget';
import type { Attribution } from '@weighbridge/domain';
import type { ResolvedKey } from './key.ts';
import {
  isWhen,
  type LimitMatch,
  type LimitSubject,
  type MatchingLimit,
  type MatchingRates,
} from './matchingLimit.ts';

/** Who pays for an attempt, and from which buckets. A key without further limits is its own payer. */
export interface Payer extends Pick<ResolvedKey, 'id' | 'principalId' | 'teamId'> {
  /** The buckets that its usage event names: those of the policies, then those of further limits. */
  readonly policies: readonly { readonly bucket: BucketRef }[];
  /** Those that it reserves from. */
  readonly budgets: readonly BudgetedPolicy[];
  /** Some of them count requests or tokens. */
  readonly isCounted?: boolean;
  /** Some of them have windows that open on first use: only a reservation tells their buckets. */
  readonly isOnFirstUse?: boolean;
}

/** What decides which further limits count an attempt. */
export interface CountedAttempt {
  /** Undefined: any of several models may answer, so the limits of every model count it. */
  readonly model: string | undefined;
  /** Other models that work on it: those of tools of the vendor. Default: none. */
  readonly others?: readonly string[];
  readonly attribution: Attribution;
}

/** What was matched for attempts of one key. */
interface KnownMatches {
  /** By the models of attempts: the limits that count them. */
  readonly limits: Map<string, readonly MatchingLimit[]>;
  readonly limitRates: Map<string, readonly MatchingRates[]>;
  /** By the subjects of these. Payers share what a usage event says of them. */
  readonly payers: Map<string, Payer>;
  readonly rates: Map<string, readonly RateLimitedPolicy[]>;
}

const NO_MODELS: readonly string[] = [];

/** Of one key: what was not used lately is made again. */
const MAX_KNOWN = 500;
const known = new WeakMap<ResolvedKey, KnownMatches>();

/** Throws a 400 if a limit needs attribution that the attempt lacks. */
export function payerOf(key: ResolvedKey, attempt: CountedAttempt): Payer {
  if (key.limits.length === 0) return key;
  const { limits, payers } = knownMatches(key);
  const { found, shape } = matching(key.limits, limits, attempt);
  return remember(payers, shape, () => {
    return withBudgets(
      key,
      found.map(({ limit, of }) => limit.budgetOf(of)),
    );
  });
}

const NO_RATES: readonly RateLimitedPolicy[] = [];

/** The rates of further limits that an attempt counts in. Throws as `payerOf` does. */
export function limitRatesOf(key: ResolvedKey, attempt: CountedAttempt): readonly RateLimitedPolicy[] {
  if (key.limitRates.length === 0) return NO_RATES;
  const { limitRates, rates } = knownMatches(key);
  const { found, shape } = matching(key.limitRates, limitRates, attempt);
  return remember(rates, shape, () => found.map(({ limit, of }) => limit.rateOf(of)));
}

/** The limits that count an attempt, each with its counter; `shape` is equal for those of equal counters. */
function matching<Limit extends LimitMatch>(
  all: readonly Limit[],
  known: Map<string, readonly Limit[]>,
  { model, others = NO_MODELS, attribution }: CountedAttempt,
) {
  const found: { readonly limit: Limit; readonly of: LimitSubject }[] = [];
  let shape = '';
  for (const limit of limitsOn(all, known, model, others)) {
    if (!isWhen(limit, attribution)) continue;
    const of = limit.counterOf(attribution);
    if (!of) continue;
    found.push({ limit, of });
    // No value of a header contains a NUL.
    shape += `${limit.id}\0${of.subject}\0`;
  }
  return { found, shape };
}

function limitsOn<Limit extends LimitMatch>(
  all: readonly Limit[],
  known: Map<string, readonly Limit[]>,
  model: string | undefined,
  others: readonly string[],
): readonly Limit[] {
  if (model === undefined) return all;
  // A caller names these as it likes: they are not remembered.
  if (others.length > 0) return all.filter(({ counts }) => counts(model) || others.some(counts));
  return remember(known, model, () => all.filter(({ counts }) => counts(model)));
}

/** Those of its budgets that count a free model: an exhausted budget never blocks what costs nothing. */
export function countBudgets({ budgets }: Payer): readonly BudgetedPolicy[] {
  return budgets.filter(({ limit }) => limit?.unit !== undefined);
}

/** The payer of an attempt that reserved these buckets from some of its budgets, in their order: `others` may stand in for some. */
export function payerFrom(
  payer: Payer,
  budgets: readonly BudgetedPolicy[],
  reserved: readonly BucketRef[],
): Payer {
  if (!payer.isOnFirstUse && !reserved.some(({ subject }) => subject === OTHERS_SUBJECT)) return payer;
  const last = lastMade.get(payer);
  if (last && isSame(last.reserved, reserved)) return last.payer;
  const used = payer.budgets.flatMap((budget) => {
    const others = budget.limit?.opening?.others;
    const bucket = reserved[budgets.indexOf(budget)];
    const counter = others && bucket?.subject === OTHERS_SUBJECT ? others : budget;
    if (counter.firstUseMs === undefined) return counter;
    // Nothing is reserved for what is free: it opens no window, and counts in none.
    return bucket ? { ...counter, bucket } : [];
  });
  const policies = payer.policies.filter(({ bucket }) => definedBy(bucket).limitId === undefined);
  const further = used.filter(({ limit }) => limit);
  const made = { ...payer, budgets: used, policies: [...policies, ...further] };
  lastMade.set(payer, { reserved, payer: made });
  return made;
}

/** What an event says of a payer is encoded once: most attempts of one reserve from the same buckets. */
const lastMade = new WeakMap<Payer, { readonly reserved: readonly BucketRef[]; readonly payer: Payer }>();

function isSame(some: readonly BucketRef[], others: readonly BucketRef[]): boolean {
  return some.length === others.length && some.every((bucket, at) => bucket === others[at]);
}

function withBudgets(key: ResolvedKey, further: readonly BudgetedPolicy[]): Payer {
  const { id, principalId, teamId, policies, budgets } = key;
  if (further.length === 0) return key;
  return {
    id,
    principalId,
    teamId,
    policies: [...policies, ...further],
    budgets: [...budgets, ...further],
    isCounted: further.some(({ limit }) => limit?.unit !== undefined),
    isOnFirstUse: further.some(({ firstUseMs }) => firstUseMs !== undefined),
  };
}

function knownMatches(key: ResolvedKey): KnownMatches {
  const found = known.get(key) ?? {
    ...{ limits: new Map(), limitRates: new Map() },
    ...{ payers: new Map(), rates: new Map() },
  };
  known.set(key, found);
  return found;
}

function remember<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key);
  if (found !== undefined) return found;
  if (map.size >= MAX_KNOWN) map.clear();
  const made = make();
  map.set(key, made);
  return made;
}
