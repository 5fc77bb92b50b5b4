import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  AccountCallSchema,
  AccountGrant,
  LeaseRequestSchema,
  LeaseResponse,
} from '@weighbridge/contracts';
import {
  type AccountAmounts,
  MAX_WAITING_PER_CALL,
  SLOT_MS,
  SLOTS,
  type VendorLeft,
} from './accountWindow.ts';

/** A connector whose account has limits; a message of `contracts` is one. */
export interface LimitedAccount {
  readonly id: string;
  readonly provider: string;
  readonly requestsPerMinute?: number | undefined;
  readonly tokensPerMinute?: bigint | undefined;
}

export interface AccountBookDeps {
  /** Rejects if the control plane does not answer in time. */
  readonly call: (request: MessageInitShape<typeof LeaseRequestSchema>) => Promise<LeaseResponse>;
  readonly producerId: string;
  readonly epoch: string;
  /** Monotonic. */
  readonly nowMs: () => number;
  /** The number of proxies that share the accounts, this one included. */
  readonly liveProxies: () => number;
  /** Heartbeats arrive from the control plane. Otherwise each proxy uses its even share without asking. */
  readonly isLive: () => boolean;
}

/** A request in the queue of an account. It may be in those of others too: the first that has room for it gets it. */
export interface Waiter {
  readonly priority: number;
  readonly tokens: number;
  /** Otherwise it is refused if it gets nothing when it is asked for. */
  readonly mayWait: boolean;
  /** No longer waits: it was granted elsewhere, or has given up. */
  readonly isDone: () => boolean;
  /** `slot`: that of the grant; undefined: this proxy's own share. */
  readonly grant: (slot: bigint | undefined) => void;
  readonly refuse: (retryMs: number) => void;
}

/** Requests that join a queue of others are told to the control plane within this, for its order over all proxies. */
const TELL_MS = 100;
/** Corrections, other limits and the vendor's word, as other proxies told them, are noticed within this. */
const ASK_AGAIN_MS = 5_000;
const MAX_RETRY_MS = SLOTS * SLOT_MS;
const UNLIMITED = Number.POSITIVE_INFINITY;

/** The requests of this proxy that wait for one account, a higher priority first. At most one call for them is in flight. */
export class AccountQueue {
  account: LimitedAccount;
  readonly #deps: AccountBookDeps;
  #waiters: Waiter[] = [];
  readonly #corrections = new Map<bigint, AccountAmounts>();
  #vendorLeft: VendorLeft | undefined;
  #refusedMs = 0;
  /** The control plane counts requests of this queue as waiting. */
  #isKnown = false;
  /** Nothing is left for any request until then, as far as is known; until `quiet`, no one asks again. */
  #emptyUntilMs = 0;
  #quietUntilMs = 0;
  /** Whose request the vendor refused last, without a word of its limits. */
  #refused: { readonly principalId: string; readonly atMs: number } | undefined;
  #isAsking = false;
  #timer: NodeJS.Timeout | undefined;
  #askAtMs = UNLIMITED;
  /** What this proxy took, by its own slots. */
  readonly #taken: { readonly slot: number; requests: number; tokens: number }[] = [];

  constructor(account: LimitedAccount, deps: AccountBookDeps) {
    this.account = account;
    this.#deps = deps;
  }

  /** How long until something may be left. */
  get retryMs(): number {
    return Math.max(0, this.#emptyUntilMs - this.#deps.nowMs());
  }

  add(waiter: Waiter): void {
    const isEmpty = this.#deps.nowMs() < this.#quietUntilMs;
    if (isEmpty && !waiter.mayWait) {
      waiter.refuse(this.retryMs);
      return;
    }
    const at = this.#waiters.findLastIndex(({ priority }) => priority >= waiter.priority);
    this.#waiters.splice(at + 1, 0, waiter);
    if (isEmpty) this.#askWithin(TELL_MS);
    else void this.#ask();
  }

  /** Forgets those that no longer wait. */
  sweep(): void {
    this.#waiters = this.#waiters.filter(({ isDone }) => !isDone());
    if (this.#waiters.length === 0 && this.#isKnown) this.#askWithin(TELL_MS);
  }

  correct(slot: bigint | undefined, by: AccountAmounts): void {
    if (slot === undefined || (by.requests === 0 && by.tokens === 0)) return;
    if (by.requests < 0 || by.tokens < 0) this.#noteRoom();
    const before = this.#corrections.get(slot) ?? { requests: 0, tokens: 0 };
    this.#corrections.set(slot, {
      requests: before.requests + by.requests,
      tokens: before.tokens + by.tokens,
    });
    // Earlier ones concern no minute any more.
    for (const other of this.#corrections.keys()) {
      if (other + BigInt(SLOTS) <= slot) this.#corrections.delete(other);
    }
  }

  /** Something may be left again. */
  #noteRoom(): void {
    this.#quietUntilMs = 0;
    if (this.#waiters.length > 0) this.#askWithin(TELL_MS);
  }

  /** Its limits may be other ones now. */
  update(account: LimitedAccount): void {
    const { requestsPerMinute, tokensPerMinute } = this.account;
    const isSame =
      account.requestsPerMinute === requestsPerMinute && account.tokensPerMinute === tokensPerMinute;
    this.account = account;
    if (!isSame) this.#noteRoom();
  }

  heard(left: VendorLeft): void {
    this.#vendorLeft = left;
    if (left.requests?.left === 0 || left.tokens?.left === 0) this.#askWithin(0);
  }

  /**
   * The vendor refused a request, and said nothing of its limits. If it refuses another principal's too, it is not about the request: the
   * account gets nothing for that long.
   */
  refused(principalId: string, forMs: number): void {
    const nowMs = this.#deps.nowMs();
    const before = this.#refused;
    this.#refused = { principalId, atMs: nowMs };
    if (!before || before.principalId === principalId || nowMs - before.atMs > MAX_RETRY_MS) return;
    // A vendor may ask for any time, in any form.
    const ms = Math.ceil(Math.min(MAX_RETRY_MS, Math.max(1, forMs || 1)));
    this.#refusedMs = Math.max(this.#refusedMs, ms);
    this.#setEmpty(Math.max(this.retryMs, ms));
    this.#askWithin(0);
  }

  #setEmpty(ms: number): void {
    const nowMs = this.#deps.nowMs();
    this.#emptyUntilMs = nowMs + ms;
    this.#quietUntilMs = nowMs + Math.min(ms, ASK_AGAIN_MS);
  }

  #askWithin(ms: number): void {
    const atMs = this.#deps.nowMs() + ms;
    if (atMs >= this.#askAtMs) return;
    clearTimeout(this.#timer);
    this.#askAtMs = atMs;
    this.#timer = setTimeout(() => {
      this.#askAtMs = UNLIMITED;
      void this.#ask();
    }, ms);
    this.#timer.unref();
  }

  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    // Takes the other requests of this turn along.
    await Promise.resolve();
    let goesOn = true;
    while (goesOn) goesOn = await this.#askOnce();
    this.#isAsking = false;
  }

  /** Whether others wait that may get something. */
  async #askOnce(): Promise<boolean> {
    this.sweep();
    const batch = this.#waiters.slice(0, MAX_WAITING_PER_CALL);
    const hasNews = this.#isKnown || this.#vendorLeft !== undefined || this.#refusedMs > 0;
    if (batch.length === 0 && !hasNews) return false;
    const { granted, slot, retryMs } = (await this.#askForGrant(batch)) ?? this.#ownShareOf(batch);
    for (const waiter of batch.slice(0, granted)) this.#grant(waiter, slot);
    const blocked = batch[granted];
    // They go before all that could be granted to those behind.
    const isRefused = ({ mayWait, priority }: Waiter) => blocked && !mayWait && priority <= blocked.priority;
    const refused = this.#waiters.filter((waiter) => isRefused(waiter) && !waiter.isDone());
    this.#waiters = this.#waiters.filter((waiter) => !isRefused(waiter));
    for (const waiter of refused) waiter.refuse(retryMs);
    this.sweep();
    const [first] = this.#waiters;
    if (!first || !blocked) return first !== undefined;
    this.#askWithin(Math.min(retryMs, ASK_AGAIN_MS));
    return first.priority > blocked.priority;
  }

  #grant(waiter: Waiter, slot: bigint | undefined): void {
    if (waiter.isDone()) this.correct(slot, { requests: -1, tokens: -waiter.tokens });
    else {
      this.#take({ requests: 1, tokens: waiter.tokens });
      waiter.grant(slot);
    }
  }

  /** Undefined if the control plane does not say. */
  async #askForGrant(batch: readonly Waiter[]): Promise<Grant | undefined> {
    if (!this.#deps.isLive()) return undefined;
    const { producerId, epoch } = this.#deps;
    const corrections = [...this.#corrections];
    const [vendorLeft, refusedMs] = [this.#vendorLeft, this.#refusedMs];
    this.#corrections.clear();
    this.#vendorLeft = undefined;
    this.#refusedMs = 0;
    const call = {
      connectorId: this.account.id,
      waiting: batch.map(({ priority, tokens, mayWait }) => ({
        priority,
        tokens: BigInt(tokens),
        stays: mayWait,
      })),
      corrections: corrections.map(([slot, { requests, tokens }]) => ({
        slot,
        requests: BigInt(requests),
        tokens: BigInt(tokens),
      })),
      ...(vendorLeft && { vendorLeft: vendorLeftMessage(vendorLeft) }),
      refusedMs,
    } satisfies MessageInitShape<typeof AccountCallSchema>;
    const grant = await this.#deps.call({ producerId, epoch, budgets: [], rates: [], accounts: [call] }).then(
      ({ accounts }) => accounts[0],
      () => undefined,
    );
    if (grant) return this.#heed(grant, batch);
    for (const [slot, by] of corrections) this.correct(slot, by);
    this.#refusedMs = Math.max(this.#refusedMs, refusedMs);
    this.#vendorLeft ??= vendorLeft;
    return undefined;
  }

  #heed({ granted, slot, requestsLeft, tokensLeft, retryMs }: AccountGrant, batch: readonly Waiter[]): Grant {
    this.#isKnown = batch.slice(granted).some(({ mayWait }) => mayWait);
    if (requestsLeft !== 0n && tokensLeft !== 0n) {
      this.#emptyUntilMs = 0;
      this.#quietUntilMs = 0;
    } else if (retryMs > 0) this.#setEmpty(retryMs);
    return { granted, slot, retryMs };
  }

  /** Without the control plane: as much as all proxies may take at once. */
  #ownShareOf(batch: readonly Waiter[]): Grant {
    // What is only known here can't be told. It is heeded here.
    this.#isKnown = false;
    const emptyMs = this.retryMs;
    if (emptyMs > 0) return { granted: 0, slot: undefined, retryMs: emptyMs };
    const share = (limit: number | undefined) =>
      limit === undefined ? UNLIMITED : Math.floor(limit / Math.max(1, this.#deps.liveProxies()));
    const { requestsPerMinute, tokensPerMinute } = this.account;
    const most = {
      requests: share(requestsPerMinute),
      tokens: share(tokensPerMinute === undefined ? undefined : Number(tokensPerMinute)),
    };
    const taken = this.#takenLately();
    let granted = 0;
    for (const { tokens } of batch) {
      // A request that is larger than the share goes alone.
      const fits = taken.tokens === 0 || taken.tokens + tokens <= most.tokens;
      if (taken.requests >= most.requests || !fits) break;
      taken.requests++;
      taken.tokens += tokens;
      granted++;
    }
    return { granted, slot: undefined, retryMs: SLOT_MS };
  }

  #take({ requests, tokens }: AccountAmounts): void {
    const slot = Math.floor(this.#deps.nowMs() / SLOT_MS);
    const newest = this.#taken.at(-1);
    if (newest?.slot === slot) {
      newest.requests += requests;
      newest.tokens += tokens;
    } else this.#taken.push({ slot, requests, tokens });
    if (this.#taken.length > SLOTS) this.#taken.shift();
  }

  #takenLately(): { requests: number; tokens: number } {
    const since = Math.floor(this.#deps.nowMs() / SLOT_MS) - SLOTS;
    const sum = { requests: 0, tokens: 0 };
    for (const { slot, requests, tokens } of this.#taken) {
      if (slot <= since) continue;
      sum.requests += requests;
      sum.tokens += tokens;
    }
    return sum;
  }
}

interface Grant {
  /** How many of the waiting requests may go, from the first. */
  readonly granted: number;
  readonly slot: bigint | undefined;
  readonly retryMs: number;
}

function vendorLeftMessage({ requests, tokens }: VendorLeft) {
  const message = ({ left, resetMs }: { readonly left: number; readonly resetMs: number }) => ({
    left: BigInt(left),
    resetMs,
  });
  return { ...(requests && { requests: message(requests) }), ...(tokens && { tokens: message(tokens) }) };
}
