import { accountLimited, accountQueueFull } from './accountErrors.ts';
import { type AccountBookDeps, AccountQueue, type LimitedAccount, type Waiter } from './accountQueue.ts';
import type { VendorLeft } from './accountWindow.ts';

/** A request that may go to an account. */
export interface AccountPermit<Account extends LimitedAccount = LimitedAccount> {
  readonly account: Account;
  readonly tokens: number;
  /** Of the grant; undefined: from this proxy's own share. */
  readonly slot: bigint | undefined;
}

/** A request in the queues of accounts. */
export interface AccountWait<Account extends LimitedAccount> {
  /** Rejects with a 429 if the request is not to wait and no account has anything left for it, or has given up. */
  readonly permit: Promise<AccountPermit<Account>>;
  readonly giveUp: () => void;
}

export interface AccountRequest<Account extends LimitedAccount> {
  /** The accounts of which any will do, in order of preference, and what the request takes of each. */
  readonly accounts: readonly { readonly account: Account; readonly tokens: number }[];
  readonly priority: number;
  /** Whose request it is. */
  readonly principalId: string;
  /** Otherwise it is refused at once if nothing is left. */
  readonly mayWait: boolean;
}

/** At a proxy, beside what each of them holds itself; and of one principal, so that it fills no queue for others. */
const MAX_WAITING = 10_000;
const MAX_WAITING_EACH = 1_000;

/**
 * The limits of accounts over all proxies. Each request asks the control plane, in one call with those that came meanwhile: so nothing is
 * granted that is not used, and those that wait at any proxy go in order of their priorities.
 */
export class AccountBook {
  readonly #deps: AccountBookDeps;
  readonly #queues = new Map<string, AccountQueue>();
  /** The requests that may wait, by principal. */
  readonly #waitingOf = new Map<string, number>();

  constructor(deps: AccountBookDeps) {
    this.#deps = deps;
  }

  /** The requests that may wait, and have not been granted. */
  get waiting(): number {
    let waiting = 0;
    for (const requests of this.#waitingOf.values()) waiting += requests;
    return waiting;
  }

  request<Account extends LimitedAccount>(request: AccountRequest<Account>): AccountWait<Account> {
    const { accounts, priority, principalId, mayWait } = request;
    const waitingOfPrincipal = this.#waitingOf.get(principalId) ?? 0;
    const isFull = mayWait && (waitingOfPrincipal >= MAX_WAITING_EACH || this.waiting >= MAX_WAITING);
    let isDone = false;
    let giveUp = () => {};
    const permit = new Promise<AccountPermit<Account>>((resolve, reject) => {
      let refusals = 0;
      const refuse = (error: Error) => {
        isDone = true;
        reject(error);
      };
      giveUp = () => {
        if (isDone) return;
        const [first] = accounts;
        const queues = accounts.flatMap(({ account }) => this.#queues.get(account.id) ?? []);
        refuse(
          accountLimited(first?.account.provider ?? '', Math.min(...queues.map(({ retryMs }) => retryMs))),
        );
        for (const queue of queues) queue.sweep();
      };
      for (const { account, tokens } of accounts) {
        if (isFull) return refuse(accountQueueFull(account.provider));
        const waiter: Waiter = {
          priority,
          mayWait,
          // What exceeds the whole limit waits until nothing else is counted.
          tokens: Math.min(tokens, Number(account.tokensPerMinute ?? 0)),
          isDone: () => isDone,
          grant: (slot) => {
            isDone = true;
            resolve({ account, tokens: waiter.tokens, slot });
          },
          refuse: (retryMs) => {
            if (++refusals === accounts.length) refuse(accountLimited(account.provider, retryMs));
          },
        };
        this.#queueOf(account).add(waiter);
      }
    });
    if (mayWait && !isFull) this.#countWaiting(principalId, permit);
    return { permit, giveUp };
  }

  /** Ends a request with the tokens that it used; undefined: it was not sent. */
  settle({ account, tokens, slot }: AccountPermit, usedTokens: number | undefined): void {
    const counted = account.tokensPerMinute === undefined ? 0 : (usedTokens ?? 0) - tokens;
    this.#queues
      .get(account.id)
      ?.correct(slot, { requests: usedTokens === undefined ? -1 : 0, tokens: counted });
  }

  /** What a response of the vendor says is left of its limits. */
  heard(account: LimitedAccount, left: VendorLeft): void {
    this.#queues.get(account.id)?.heard(left);
  }

  /** The vendor refused a principal's request with 429, and may do so for this long. */
  refused(account: LimitedAccount, principalId: string, forMs: number): void {
    this.#queues.get(account.id)?.refused(principalId, forMs);
  }

  #countWaiting(principalId: string, permit: Promise<unknown>): void {
    const add = (more: number) => {
      const waiting = (this.#waitingOf.get(principalId) ?? 0) + more;
      if (waiting > 0) this.#waitingOf.set(principalId, waiting);
      else this.#waitingOf.delete(principalId);
    };
    add(1);
    const end = () => add(-1);
    permit.then(end, end);
  }

  /** Only a new request brings the account as it is now: those that end may have begun under other limits. */
  #queueOf(account: LimitedAccount): AccountQueue {
    const known = this.#queues.get(account.id);
    known?.update(account);
    const queue = known ?? new AccountQueue(account, this.#deps);
    if (!known) this.#queues.set(account.id, queue);
    return queue;
  }
}
