import type { AppError } from '@weighbridge/errors';
import { clockSkewError, describeClockSkew } from './clockSkew.ts';
import type { ControlPlane } from './controlPlane.ts';
import type { ControlState } from './controlState.ts';
import type { HeartbeatState } from './heartbeatState.ts';

export interface ReadinessDeps {
  readonly controlPlane: Pick<ControlPlane, 'refusal' | 'updateFault'>;
  readonly state: ControlState;
  readonly heartbeats: HeartbeatState;
}

/** Why this proxy is not ready, for the operator; undefined if it is. */
export function notReadyReason({ controlPlane, state, heartbeats }: ReadinessDeps): string | undefined {
  const refusal = controlPlane.refusal();
  if (refusal) return refusal.message;
  const skew = describeClockSkew(heartbeats.clockAheadMs);
  if (skew !== undefined) return skew;
  const fault = controlPlane.updateFault();
  if (fault !== undefined) return fault;
  const status = state.status(performance.now());
  return status === 'live' || status === 'stale'
    ? undefined
    : `the state from the control plane is ${status}`;
}

/** The error of every request while this host's clock is wrong. */
export function clockRefusal(heartbeats: HeartbeatState): AppError | undefined {
  const skew = describeClockSkew(heartbeats.clockAheadMs);
  return skew === undefined ? undefined : clockSkewError(skew);
}
