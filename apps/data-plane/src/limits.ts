import type { MessageInitShape } from '@bufbuild/protobuf';
import { AccountBook, LeaseBook, RateBook } from '@weighbridge/budget';
import type { LeaseRequestSchema, LeaseResponse } from '@weighbridge/contracts';
import type { Metrics } from '@weighbridge/runtime';
import type { Spool } from '@weighbridge/usage/recording';
import type { HeartbeatState } from './control/heartbeatState.ts';

export interface LimitsDeps {
  readonly lease: (request: MessageInitShape<typeof LeaseRequestSchema>) => Promise<LeaseResponse>;
  readonly spool: Pick<Spool, 'producerId' | 'epoch' | 'flush'>;
  readonly heartbeats: HeartbeatState;
  /** Heartbeats arrive from the control plane. */
  readonly isLive: () => boolean;
  readonly metrics: Metrics;
}

/** The budgets, rate limits and accounts of this proxy, which lease their shares from the control plane. */
export interface Limits {
  readonly budget: LeaseBook;
  readonly rates: RateBook;
  readonly accounts: AccountBook;
  /** The last lease call failed: what leases have left is all that can be spent. */
  readonly grantsNothing: () => boolean;
}

export function createLimits({ lease, spool, heartbeats, isLive, metrics }: LimitsDeps): Limits {
  const shadow = metrics.counter(
    'weighbridge_shadow_refusals_total',
    'Requests that a shadow policy would have refused.',
    ['policy', 'limit'],
  );
  const { producerId, epoch } = spool;
  const now = () => ({ monotonicMs: performance.now(), wallMs: Date.now() });
  let lastFailed = false;
  const call: LimitsDeps['lease'] = async (request) => {
    // What the call returns was released by settled attempts. Their ends must be on disk before, or a crash would charge
    // their reservations from it.
    spool.flush();
    const sentAt = now();
    try {
      const response = await lease(request);
      heartbeats.noteContact(sentAt);
      lastFailed = false;
      return response;
    } catch (error) {
      lastFailed = true;
      throw error;
    }
  };
  const budget = new LeaseBook({
    call,
    producerId,
    epoch,
    nowMs: () => performance.now(),
    clockMs: () => heartbeats.clockMs(Date.now()),
    silenceMs: () => heartbeats.silenceMs(now()),
    isLive,
    onShadowRefusal: (policy) => shadow.inc({ policy, limit: 'budget' }),
  });
  metrics.gauge('weighbridge_leases', 'Buckets on which this proxy has a lease.', () => budget.size);
  const rates = new RateBook({
    call,
    producerId,
    epoch,
    clockMs: () => heartbeats.clockMs(Date.now()),
    liveProxies: () => heartbeats.liveProxies,
    isLive,
    onShadowRefusal: (policy) => shadow.inc({ policy, limit: 'rate' }),
  });
  const accounts = new AccountBook({
    call,
    producerId,
    epoch,
    nowMs: () => performance.now(),
    liveProxies: () => heartbeats.liveProxies,
    isLive,
  });
  metrics.gauge(
    'weighbridge_account_waiting',
    'Requests that wait for the account of a connector, which has nothing left of its limits.',
    () => accounts.waiting,
  );
  return { budget, rates, accounts, grantsNothing: () => lastFailed };
}
