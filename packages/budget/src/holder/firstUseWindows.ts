import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type FirstUseWindow,
  FirstUseWindow_Outcome as Outcome,
  type WindowCallSchema,
} from '@weighbridge/contracts';
import { type BucketRef, bucketKey } from '../bucketRef.ts';
import { MAX_BUCKETS_PER_CALL } from '../leaseWire.ts';
import type { BudgetedPolicy } from '../policies.ts';
import type { LeaseCallsDeps } from './leaseCalls.ts';

export interface FirstUseWindowsDeps extends Pick<LeaseCallsDeps, 'call' | 'producerId' | 'epoch'> {
  /** The control plane's clock as known here, in Unix milliseconds. */
  readonly clockMs: () => number;
}

/** A counter whose window is not open, and what it may count in the next one. */
export interface Unopened {
  readonly policy: BudgetedPolicy;
  /** Undefined: unlimited. */
  readonly limit: bigint | undefined;
}

/** What is known of the windows of a request's counters. */
export interface KnownWindows {
  /** A limit has no such counter any more: the key has to be looked up again. */
  readonly isReplaced: boolean;
  readonly unopened: readonly Unopened[];
}

interface Known {
  readonly policy: BudgetedPolicy;
  /** By the control plane's clock. */
  readonly untilMs: number;
  /** When a request last asked for it, likewise. */
  usedAtMs: number;
}

interface Question {
  readonly call: MessageInitShape<typeof WindowCallSchema>;
  readonly resolve: (answer: FirstUseWindow) => void;
  readonly reject: (error: unknown) => void;
}

/** How long an answer holds where clocks differ, or the key may open no more counters of its limit. */
const ANSWER_MS = 100;
const OTHERS_MS = 10_000;
/** Asked, opened by another, over again: no request meets that often. */
const MAX_ROUNDS = 4;
/** As of leases. */
const FORGET_MS = 300_000;
/** Windows that a second's sweep looks at. */
const SWEPT_PER_SECOND = 500;

/**
 * The windows that open on first use, of this proxy's counters. The control plane opens them and says when they began, so all proxies
 * agree; this is what it said last.
 */
export class FirstUseWindows {
  readonly #deps: FirstUseWindowsDeps;
  /** By the key of the counter without a window: its window, or the counter that stands in for it. */
  readonly #known = new Map<string, Known>();
  /** Questions of this turn, and those on their way, by counter and whether they open. */
  readonly #asking = new Map<string, Promise<FirstUseWindow>>();
  #questions: Question[] = [];
  #sweep: Iterator<[string, Known]> | undefined;

  constructor(deps: FirstUseWindowsDeps) {
    this.#deps = deps;
  }

  /** How many are known. */
  get size(): number {
    return this.#known.size;
  }

  /** Each policy with the bucket of its current window; undefined if one is not known to be open. */
  resolve(policies: readonly BudgetedPolicy[]): readonly BudgetedPolicy[] | undefined {
    if (!isOnFirstUse(policies)) return policies;
    const resolved: BudgetedPolicy[] = [];
    for (const policy of policies) {
      const current = this.current(policy);
      if (!current) return undefined;
      resolved.push(current);
    }
    return resolved;
  }

  /** Undefined if its window is not known to be open. */
  current(policy: BudgetedPolicy): BudgetedPolicy | undefined {
    if (policy.firstUseMs === undefined) return policy;
    const known = this.#known.get(policy.bucketKey);
    const clockMs = this.#deps.clockMs();
    if (!known || known.untilMs <= clockMs) return undefined;
    known.usedAtMs = clockMs;
    return this.current(known.policy);
  }

  /** Asks for the windows that are not known. Rejects if the control plane does not answer. */
  async learn(policies: readonly BudgetedPolicy[]): Promise<KnownWindows> {
    const unopened = new Map<string, Unopened>();
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const unknown = policies
        .map((policy) => this.#counterOf(policy))
        .filter((policy) => !this.current(policy) && !unopened.has(policy.bucketKey));
      if (unknown.length === 0) break;
      const answers = await Promise.all(unknown.map((policy) => this.#ask(policy, false)));
      for (const [at, policy] of unknown.entries()) {
        const answer = answers[at];
        if (!answer || answer.outcome === Outcome.OVER) return { isReplaced: true, unopened: [] };
        if (answer.outcome === Outcome.UNOPENED)
          unopened.set(policy.bucketKey, { policy, limit: answer.limit });
      }
    }
    return { isReplaced: false, unopened: [...unopened.values()] };
  }

  /** Opens windows for an attempt that reserved from all else. False if one has no window even so: look the key up again. */
  async open(unopened: readonly Unopened[]): Promise<boolean> {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const missing = unopened
        .map(({ policy }) => this.#counterOf(policy))
        .filter((policy) => !this.current(policy));
      if (missing.length === 0) return true;
      await Promise.all(missing.map((policy) => this.#ask(policy, true)));
    }
    return false;
  }

  /** A lease call said that a window is over, or its counter replaced. */
  forget(policies: readonly BudgetedPolicy[]): void {
    for (const policy of policies) this.#known.delete(policy.bucketKey);
  }

  /** Call it each second: windows that are over are dropped, and those that no request asked for, which can be asked for again. */
  everySecond(): void {
    const clockMs = this.#deps.clockMs();
    this.#sweep ??= this.#known.entries();
    for (let seen = 0; seen < SWEPT_PER_SECOND; seen++) {
      const next = this.#sweep.next();
      if (next.done) {
        this.#sweep = undefined;
        return;
      }
      const [key, { untilMs, usedAtMs }] = next.value;
      if (untilMs <= clockMs || clockMs - usedAtMs >= FORGET_MS) this.#known.delete(key);
    }
  }

  /** The counter that a request names, or `others` while its key may open no more. */
  #counterOf(policy: BudgetedPolicy): BudgetedPolicy {
    const known = this.#known.get(policy.bucketKey);
    const isOthers = known?.policy.firstUseMs !== undefined && known.untilMs > this.#deps.clockMs();
    return isOthers ? known.policy : policy;
  }

  #ask(policy: BudgetedPolicy, opens: boolean): Promise<FirstUseWindow> {
    const name = `${opens}/${policy.bucketKey}`;
    const running = this.#asking.get(name);
    if (running) return running;
    const { policyId, counterVersion, subject } = policy.bucket;
    const keyId = policy.limit?.opening?.keyId ?? '';
    const asking = new Promise<FirstUseWindow>((resolve, reject) => {
      this.#questions.push({ call: { policyId, counterVersion, subject, keyId, opens }, resolve, reject });
    });
    // Batches the other requests of this turn.
    if (this.#questions.length === 1) queueMicrotask(() => void this.#send());
    const learned = asking
      .then((answer) => {
        this.#note(policy, answer);
        return answer;
      })
      .finally(() => this.#asking.delete(name));
    this.#asking.set(name, learned);
    return learned;
  }

  async #send(): Promise<void> {
    const { call, producerId, epoch } = this.#deps;
    const questions = this.#questions;
    this.#questions = [];
    for (let at = 0; at < questions.length; at += MAX_BUCKETS_PER_CALL) {
      const batch = questions.slice(at, at + MAX_BUCKETS_PER_CALL);
      const request = { producerId, epoch, budgets: [], rates: [], windows: batch.map((one) => one.call) };
      const failure = new Error('the response lacks a window');
      const { windows, error } = await call(request).then(
        (response) => ({ windows: response.windows, error: failure }),
        (reason: unknown) => ({ windows: [], error: reason ?? failure }),
      );
      for (const [index, { resolve, reject }] of batch.entries()) {
        const window = windows[index];
        if (window) resolve(window);
        else reject(error);
      }
    }
  }

  #note(policy: BudgetedPolicy, { outcome, startMs }: FirstUseWindow): void {
    const clockMs = this.#deps.clockMs();
    const others = policy.limit?.opening?.others;
    if (outcome === Outcome.OPEN) {
      const opened = windowFrom(policy, startMs);
      const untilMs = Math.max(opened.windowEndMs ?? 0, clockMs + ANSWER_MS);
      this.#known.set(policy.bucketKey, { policy: opened, untilMs, usedAtMs: clockMs });
    } else if (outcome === Outcome.OTHERS && others) {
      this.#known.set(policy.bucketKey, { policy: others, untilMs: clockMs + OTHERS_MS, usedAtMs: clockMs });
    } else this.#known.delete(policy.bucketKey);
  }
}

export function isOnFirstUse(policies: readonly BudgetedPolicy[]): boolean {
  for (const policy of policies) if (policy.firstUseMs !== undefined) return true;
  return false;
}

/** The policy in the window that began then. The window was opened for its counter: no lease call opens one. */
function windowFrom({ firstUseMs = 0, ...policy }: BudgetedPolicy, startMs: bigint): BudgetedPolicy {
  const bucket: BucketRef = { ...copyOf(policy.bucket), windowStartMs: startMs };
  return {
    ...policy,
    bucket,
    bucketKey: bucketKey(bucket),
    windowEndMs: Number(startMs) + firstUseMs,
    limit: policy.limit && { ...policy.limit, opening: undefined },
  };
}

function copyOf({ policyId, counterVersion, subject, windowStartMs }: BucketRef): BucketRef {
  return { policyId, counterVersion, subject, windowStartMs };
}
