import type { AccountBook, AccountPermit, AccountRequest } from '@weighbridge/budget';
import type { ResolvedKey, RoutableConnector, RoutingTable } from '@weighbridge/state';
import type { Target } from '../control/target.ts';
import { vendorLeftOf } from '../upstream/vendorLimits.ts';
import type { Attempt } from './attempt.ts';
import type { ClientConnection } from './clientConnection.ts';
import type { GenerationPlan } from './plan.ts';
import { rateTokens } from './reservationEstimate.ts';
import { retryAfterMs } from './verdict.ts';

export interface AccountDeps {
  readonly accounts: Pick<AccountBook, 'request' | 'settle' | 'heard' | 'refused'>;
  readonly usualTokens: (model: string) => number | undefined;
  readonly now: () => Date;
  readonly table: () => RoutingTable | undefined;
}

/** A permit for one attempt on a target, of the account of its connector. */
export type TargetPermit = AccountPermit<RoutableConnector>;

/** Of a vendor that refuses requests, and does not say for how long. */
const UNKNOWN_REFUSAL_MS = 1_000;
/** A connector that goes, or changes, is noticed within this by those that wait for it. */
const LOOK_MS = 5_000;

/** Whether requests to the connector need a permit of its account. */
export function isAccountWithLimits({ requestsPerMinute, tokensPerMinute }: RoutableConnector): boolean {
  return requestsPerMinute !== undefined || tokensPerMinute !== undefined;
}

type WaitingClient = Pick<ClientConnection, 'waitFor' | 'hasDisconnected' | 'cancellation'>;

/** The permits of one request: each account is asked once, and if none has anything left, the request waits as its policy says. */
export class AccountAdmission {
  readonly #deps: AccountDeps;
  readonly #plan: GenerationPlan;
  readonly #client: WaitingClient;
  /** The targets whose accounts had nothing left. */
  readonly #full: Target[] = [];

  constructor(deps: AccountDeps, plan: GenerationPlan, client: WaitingClient) {
    this.#deps = deps;
    this.#plan = plan;
    this.#client = client;
  }

  /** Rejects with a 429 if the account has nothing left. */
  async ask(target: Target, key: ResolvedKey): Promise<TargetPermit> {
    this.#full.push(target);
    const permit = await this.#request([target], key, false).permit;
    this.#full.pop();
    return permit;
  }

  /** Waits for any of the accounts that had nothing left; undefined if that takes too long, or if no one waits for it any more. */
  async wait(
    key: ResolvedKey,
  ): Promise<{ readonly target: Target; readonly permit: TargetPermit } | undefined> {
    const targets = this.#full.splice(0);
    if (targets.length === 0 || key.queueMs === 0) return undefined;
    const { permit, giveUp } = this.#request(targets, key, true);
    let isOver = false;
    const waiting = permit
      .catch(() => undefined)
      .finally(() => {
        isOver = true;
      });
    const { cancellation } = this.#client;
    for (let leftMs = key.queueMs; leftMs > 0 && !isOver && this.#areCurrent(targets); leftMs -= LOOK_MS) {
      await this.#client.waitFor(waiting, Math.min(LOOK_MS, leftMs));
      if (this.#client.hasDisconnected || cancellation.isCancelled) break;
    }
    giveUp();
    const granted = await waiting;
    const target = targets.find(({ connector }) => connector.id === granted?.account.id);
    if (!granted || !target) return undefined;
    if (this.#areCurrent([target])) return { target, permit: granted };
    this.#deps.accounts.settle(granted, undefined);
    return undefined;
  }

  /** Whether their connectors are still there, with the same settings. */
  #areCurrent(targets: readonly Target[]): boolean {
    const table = this.#deps.table();
    return targets.every(({ connector }) =>
      table?.connectors.get(connector.provider)?.includes(connector.whole ?? connector),
    );
  }

  /** What the vendor said of its own limits. */
  heard(connector: RoutableConnector, { principalId }: ResolvedKey, { state, response }: Attempt): void {
    if (state !== 'answered') return;
    const { status, headers } = response;
    const wallMs = this.#deps.now().getTime();
    const left = vendorLeftOf(headers, wallMs);
    if (left) this.#deps.accounts.heard(connector, left);
    if (status === 429)
      this.#deps.accounts.refused(
        connector,
        principalId,
        retryAfterMs(headers, wallMs) ?? UNKNOWN_REFUSAL_MS,
      );
  }

  #request(targets: readonly Target[], { priority, principalId }: ResolvedKey, mayWait: boolean) {
    const accounts: AccountRequest<RoutableConnector>['accounts'] = targets.map(({ connector, model }) => ({
      account: connector,
      tokens: rateTokens(this.#deps.usualTokens, this.#plan.generation, model),
    }));
    return this.#deps.accounts.request({ accounts, priority, principalId, mayWait });
  }
}
