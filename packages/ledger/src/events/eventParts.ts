import type { Attribution, UsageEvent } from '@weighbridge/contracts';
import { workloadTypeKey } from '@weighbridge/domain';
import type { BucketRef } from '../buckets/bucketRef.ts';
import { atMost, checkText, id, MAX_INTEGER, time } from './checks.ts';
import type { LedgerEvent, WorkloadType } from './usage.ts';

const MAX_BUCKETS = 64;
const SHA256_BYTES = 32;

/** Who pays an event, and for which model: the same in all events of a key's calls of a model in one window. */
export interface EventPayer
  extends Pick<
    LedgerEvent['row'],
    'key_id' | 'principal_id' | 'policy_id' | 'model_requested' | 'model' | 'connector_id'
  > {
  readonly buckets: readonly BucketRef[];
}

/** The fields of an event that say so. They follow each other in its encoding. */
export type PayerFields = Pick<
  UsageEvent,
  'keyId' | 'principalId' | 'buckets' | 'modelRequested' | 'model' | 'connectorId'
>;

/** What an event is attributed to: the same in all events of one caller's work. */
export interface EventAttribution {
  /** JSON. */
  readonly attribution: string;
  readonly workloadType: WorkloadType | undefined;
}

/** Throws, saying why, on what the ledger could not take. */
export function payerOf(event: PayerFields): EventPayer {
  checkText('key_id', event.keyId);
  checkText('principal_id', event.principalId);
  checkText('model_requested', event.modelRequested);
  checkText('model', event.model);
  checkText('connector_id', event.connectorId);
  const buckets = bucketsOf(event);
  const [governing] = buckets;
  if (!governing) throw new Error('no bucket is named');
  return {
    key_id: id('key_id', event.keyId),
    principal_id: id('principal_id', event.principalId),
    policy_id: governing.policyId,
    model_requested: event.modelRequested,
    model: id('model', event.model),
    connector_id: event.connectorId,
    buckets,
  };
}

function bucketsOf({ buckets }: Pick<UsageEvent, 'buckets'>): BucketRef[] {
  atMost(MAX_BUCKETS, 'the number of buckets', buckets.length);
  return buckets.map(({ policyId, counterVersion, subject, windowStartMs }) => {
    checkText('a bucket', policyId);
    checkText('a bucket', subject);
    return {
      policyId: id('policy_id', policyId),
      counterVersion: atMost(MAX_INTEGER, 'counter_version', counterVersion),
      subject: id('subject', subject),
      windowStart: time('window_start', windowStartMs),
    };
  });
}

export const NO_ATTRIBUTION: EventAttribution = { attribution: '{}', workloadType: undefined };

/** Throws, saying why, on what the ledger could not take. */
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
    // The names of labels are text of the caller's: not fit for a reason.
    checkText('a label', name);
    checkText('a label', text);
  }
  for (const hash of [attribution.sessionSha256, attribution.workloadTypeSha256]) {
    if (hash && hash.length !== SHA256_BYTES) throw new Error('a SHA-256 has not 32 bytes');
  }
}

function workloadTypeOf({
  workloadType: text = '',
  workloadTypeSha256,
}: Attribution): WorkloadType | undefined {
  if (!workloadTypeSha256) return undefined;
  return { key: workloadTypeKey({ text, sha256: workloadTypeSha256 }), name: text };
}

/** As it is shown and grouped by; a hash stands beside a value that may have been cut. */
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
