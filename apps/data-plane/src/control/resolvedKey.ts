import { type BucketRef, Enforcement, type Key, type PolicyCounter } from '@weighbridge/contracts';
import { compileModelPatterns, type LockedAttribution } from '@weighbridge/domain';

/** A key as admission needs it. Never changed: a newer answer of the control plane makes a new one. */
export interface ResolvedKey {
  readonly id: string;
  readonly principalId: string;
  readonly disabled: boolean;
  readonly isOperator: boolean;
  readonly expiresAtMs: number | undefined;
  readonly attribution: LockedAttribution;
  /** The governing policy, then its parents. */
  readonly policies: readonly ResolvedPolicy[];
}

export interface ResolvedPolicy {
  readonly bucket: BucketRef;
  readonly enforced: boolean;
  readonly limitNanoUsd: bigint | undefined;
  readonly spentNanoUsd: bigint;
  readonly windowEndMs: number | undefined;
  readonly allows: (model: string) => boolean;
}

export function resolvedKey(key: Key): ResolvedKey {
  return {
    id: key.id,
    principalId: key.principalId,
    disabled: key.disabled,
    isOperator: key.isOperator,
    expiresAtMs: key.expiresAtMs === undefined ? undefined : Number(key.expiresAtMs),
    attribution: lockedAttribution(key),
    policies: key.policies.flatMap((policy) => resolvedPolicy(policy) ?? []),
  };
}

function resolvedPolicy(policy: PolicyCounter): ResolvedPolicy | undefined {
  if (!policy.bucket) return undefined;
  return {
    bucket: policy.bucket,
    enforced: policy.enforcement === Enforcement.ENFORCE,
    limitNanoUsd: policy.limitNanoUsd,
    spentNanoUsd: policy.spentNanoUsd,
    windowEndMs: policy.windowEndMs === undefined ? undefined : Number(policy.windowEndMs),
    allows: compileModelPatterns(policy.allowedModels),
  };
}

function lockedAttribution({ attribution }: Key): LockedAttribution {
  if (!attribution) return {};
  const { user, team, project, env, labels } = attribution;
  return {
    ...(user !== undefined && { user }),
    ...(team !== undefined && { team }),
    ...(project !== undefined && { project }),
    ...(env !== undefined && { env }),
    labels,
  };
}
