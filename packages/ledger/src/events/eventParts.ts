import type { BucketRef } from '@weighbridge/budget';
import type { Attribution, UsageEvent } from '@weighbridge/contracts';
import { workloadTypeKey } from '@weighbridge/domain';
import type { LedgerEvent, WorkloadType } from './usage.ts';
import { atMost, checkedId, checkedTime, checkText, MAX_INTEGER } from './validation.ts';

/** Eight policies in a chain, each with its own limit and 50 amounts of further ones, and as much room again. */
const MAX_BUCKETS = 1_024;
const SHA256_BYTES = 32;

/** Who pays for an event, and for which model. It is the same in all events of a key, model and window. */
export interface EventPayer
  extends Pick<
    LedgerEvent['row'],
    'key_id' | 'principal_id' | 'policy_id' | 'team_id' | 'model_requested' | 'model' | 'connector_id'
  > {
  readonly buckets: readonly BucketRef[];
}

/** The payer's fields of an event. They are adjacent in its encoding. */
export type PayerFields = Pick<
  UsageEvent,
  'keyId' | 'principalId' | 'buckets' | 'teamId' | 'modelRequested' | 'model' | 'connectorId'
>;

/** The attribution of an event. Many events of a caller share it. */
export interface EventAttribution {
  /** JSON. */
  readonly attribution: string;
  readonly workloadType: WorkloadType | undefined;
}

/** Throws with the reason if the ledger can't store it. */
export function payerOf(event: PayerFields): EventPayer {
  checkText('key_id', event.keyId);
  checkText('principal_id', event.principalId);
  checkText('model_requested', event.modelRequested);
  checkText('model', event.model);
  checkText('connector_id', event.connectorId);
  checkText('team_id', event.teamId);
  const buckets = bucketsOf(event);
  const [governing] = buckets;
  if (!governing) throw new Error('the event names no bucket');
  return {
    key_id: checkedId('key_id', event.keyId),
    principal_id: checkedId('principal_id', event.principalId),
    policy_id: governing.policyId,
    model_requested: event.modelRequested,
    model: checkedId('model', event.model),
    connector_id: event.connectorId,
    team_id: event.teamId === '' ? null : event.teamId,
    buckets,
  };
}

function bucketsOf({ buckets }: Pick<UsageEvent, 'buckets'>): BucketRef[] {
  atMost(MAX_BUCKETS, 'the number of buckets', buckets.length);
  return buckets.map(({ policyId, counterVersion, subject, windowStartMs }) => {
    checkText('a bucket', policyId);
    checkText('a bucket', subject);
    checkedTime('window_start', windowStartMs);
    return {
      policyId: checkedId('policy_id', policyId),
      counterVersion: atMost(MAX_INTEGER, 'counter_version', counterVersion),
      subject: checkedId('subject', subject),
      windowStartMs,
    };
  });
}

export const NO_ATTRIBUTION: EventAttribution = { attribution: '{}', workloadType: undefined };

/** Throws with the reason if the ledger can't store it. */
export function attributionOf(attribution: Attribution): EventAttribution {
  checkAttribution(attribution);
  return {
    attribution: JSON.stringify(attributionJson(attribution)),
    workloadType: workloadTypeOf(attribution),
  };
}

function checkAttribution(attribution: Attribution): void {
  const { user, team, project, env, namespace, workload, pod, sessionId, workloadType } = attribution;
  for (const text of [user, team, project, env, namespace, workload, pod, sessionId, workloadType]) {
    checkText('attribution', text);
  }
  for (const [name, text] of Object.entries(attribution.labels)) {
    // The reason must not quote label names, which are the caller's text.
    checkText('a label', name);
    checkText('a label', text);
  }
  for (const hash of [attribution.sessionSha256, attribution.workloadTypeSha256]) {
    if (hash && hash.length !== SHA256_BYTES) throw new Error('a SHA-256 does not have 32 bytes');
  }
}

function workloadTypeOf({
  workloadType: text = '',
  workloadTypeSha256,
}: Attribution): WorkloadType | undefined {
  if (!workloadTypeSha256) return undefined;
  return { key: workloadTypeKey({ text, sha256: workloadTypeSha256 }), name: text };
}

/** The attribution as it is shown and grouped by. A value that may be cut has a hash beside it. */
function attributionJson(from: Attribution): Record<string, unknown> {
  const { user, team, project, env, namespace, workload, pod, sessionId, workloadType, labels } = from;
  const hex = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString('hex');
  return {
    user,
    team,
    project,
    env,
    namespace,
    workload,
    pod,
    session_id: sessionId,
    session_sha256: hex(from.sessionSha256),
    workload_type: workloadType,
    workload_type_sha256: hex(from.workloadTypeSha256),
    ...(Object.keys(labels).length > 0 && { labels }),
  };
}
