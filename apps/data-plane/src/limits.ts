import type { MessageInitShape } from '@bufbuild/protobuf';
import type { LeaseRequestSchema, LeaseResponse } from '@weighbridge/contracts';
import type { Metrics } from '@weighbridge/runtime';
import { LeaseBook } from './budget/leaseBook.ts';
import type { HeartbeatState } from './control/heartbeatState.ts';
import { RateBook } from './rates/rateBook.ts';
import type { Spool } from './record/spool/types.ts';

export interface LimitsDeps {
  readonly lease: (request: MessageInitShape<typeof LeaseRequestSchema>) => Promise<LeaseResponse>;
  readonly spool: Pick<Spool, 'producerId' | 'epoch' | 'flush'>;
  readonly heartbeatState: HeartbeatState;
  /** The control plane is heard of. */
  readonly isLive: () => boolean;
  readonly metrics: Metrics;
}

/** What this proxy may spend, and how often it may be asked, by its leases. */
export function createLimits({ lease, spool, heartbeatState, isLive, metrics }: LimitsDeps): {
  readonly budget: LeaseBook;
  readonly rates: RateBook;
} {
  const shadow = metrics.counter(
    'weighbridge_shadow_refusals_total',
    'Requests that a policy in shadow would have refused.',
    ['policy', 'limit'],
  );
  const { producerId, epoch } = spool;
  const now = () => ({ monotonicMs: performance.now(), wallMs: Date.now() });
  const call: LimitsDeps['lease'] = async (request) => {
    // What is returned was left by attempts whose ends must be written by then: a crash would charge their reserves.
    spool.flush();
    const sentAt = now();
    const answer = await lease(request);
    heartbeatState.heard(sentAt);
    return answer;
  };
  const budget = new LeaseBook({
    call,
    producerId,
    epoch,
    nowMs: () => performance.now(),
    wallMs: () => heartbeatState.clockMs(Date.now()),
    silenceMs: () => heartbeatState.silenceMs(now()),
    onShadowRefusal: (policy) => shadow.inc({ policy, limit: 'budget' }),
  });
  metrics.gauge('weighbridge_leases', 'Buckets that this proxy has leases on.', () => budget.size);
  const rates = new RateBook({
    call,
    producerId,
    epoch,
    clockMs: () => heartbeatState.clockMs(Date.now()),
    liveProxies: () => heartbeatState.liveProxies,
    isLive,
    onShadowRefusal: (policy) => shadow.inc({ policy, limit: 'rate' }),
  });
  return { budget, rates };
}
