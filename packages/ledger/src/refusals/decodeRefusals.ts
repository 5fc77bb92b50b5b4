import { fromBinary } from '@bufbuild/protobuf';
import { REFUSING_LIMITS } from '@weighbridge/budget';
import { isSigningProducer, type RefusedRequest, RefusedRequestSchema } from '@weighbridge/contracts';
import { batchProof, readUsageBatch } from '@weighbridge/usage';
import { attributionOf } from '../events/eventParts.ts';
import { checkedId, checkedTime, checkText } from '../events/validation.ts';
import type { RefusalBatch, RefusalRow, RefusingCounter } from './refusal.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const MAX_ROWS = 1_000;
const MAX_CODES = 64;
const LIMITS: ReadonlySet<string> = new Set(REFUSING_LIMITS);
const MAX_N = 2n ** 53n;

/**
 * A proxy's batch of refused requests; undefined if the producer that may send it did not sign it. Rows that can't be stored are
 * left out: they are worth no quarantine.
 */
export function decodeRefusals(payload: Uint8Array, sentBy: string): RefusalBatch | undefined {
  const batch = readUsageBatch(payload);
  if (!batch || batch.producerId !== sentBy || !isSigningProducer(sentBy) || !UUID.test(batch.epoch))
    return undefined;
  if (batchProof(payload, batch, 'refusals') !== 'signed') return undefined;
  if (batch.firstN < 1n || batch.firstN > MAX_N || batch.events.length > MAX_ROWS) return undefined;
  const rows = batch.events.flatMap((bytes) => rowOf(bytes) ?? []);
  return { producerId: sentBy, epoch: batch.epoch, n: batch.firstN, rows };
}

function rowOf(bytes: Uint8Array): RefusalRow | undefined {
  try {
    return refusalRow(fromBinary(RefusedRequestSchema, bytes));
  } catch {
    return undefined;
  }
}

function refusalRow(refused: RefusedRequest): RefusalRow {
  const { id, requestId, endpoint, modelRequested, message, counts } = refused;
  if (!UUID.test(id)) throw new Error('the id is not a UUID');
  for (const text of [requestId, endpoint, modelRequested, message, refused.teamId])
    checkText('a text', text);
  const isCount = Object.keys(counts).length > 0;
  return {
    id,
    refused_at: checkedTime('refused_at_ms', refused.refusedAtMs),
    request_id: isCount ? '' : storable('request_id', requestId),
    key_id: storable('key_id', refused.keyId),
    principal_id: storable('principal_id', refused.principalId),
    policy_id: storable('policy_id', refused.policyId),
    team_id: refused.teamId === '' ? null : checkedId('team_id', refused.teamId),
    endpoint,
    model_requested: modelRequested,
    http_status: refused.httpStatus % 1_000,
    code: isCount ? '' : storable('code', refused.code),
    message,
    attempts: refused.attempts % 1_000,
    counter: refused.counter ? counterOf(refused.counter) : null,
    attribution: refused.attribution ? attributionOf(refused.attribution).attribution : '{}',
    counts: isCount ? countsOf(counts) : null,
  };
}

function storable(name: string, text: string): string {
  checkText(name, text);
  return checkedId(name, text);
}

function counterOf(counter: NonNullable<RefusedRequest['counter']>): RefusingCounter | null {
  const { bucket, limits, limit, spent, wanted, resetsAtMs } = counter;
  if (!bucket || !LIMITS.has(limits)) return null;
  checkText('a bucket', bucket.policyId);
  checkText('a bucket', bucket.subject);
  return {
    policy_id: bucket.policyId,
    subject: bucket.subject,
    limits: limits as RefusingCounter['limits'],
    limit: limit === undefined ? null : String(limit),
    spent: spent === undefined ? null : String(spent),
    wanted: wanted === undefined ? null : String(wanted),
    window_start:
      bucket.windowStartMs > 0n ? checkedTime('window_start', bucket.windowStartMs).toISOString() : null,
    resets_at: resetsAtMs === undefined ? null : checkedTime('resets_at_ms', resetsAtMs).toISOString(),
  };
}

function countsOf(counts: Readonly<Record<string, number>>): Record<string, number> {
  const entries = Object.entries(counts).slice(0, MAX_CODES);
  return Object.fromEntries(entries.map(([code, count]) => [storable('code', code), count]));
}
