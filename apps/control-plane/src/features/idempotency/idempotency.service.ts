import { createHash } from 'node:crypto';
import type { Database, Tx } from '@weighbridge/database';
import { seal, unseal } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { sql } from 'kysely';
import type { Caller, Identity } from '../../shared/caller.ts';

export interface IdempotentRequest {
  readonly caller: Caller;
  /** The caller's `Idempotency-Key`; undefined if it sent none. */
  readonly idempotencyKey: string | undefined;
  readonly body: unknown;
  readonly now: Date;
}

const RETENTION_MS = 24 * 60 * 60 * 1_000;

/**
 * Runs an operation once per caller and `Idempotency-Key` within 24 hours: a repetition gets the stored result. The
 * result is stored sealed by a key derived from the caller's token, since it may hold a secret.
 */
export async function runOnce<T>(
  db: Database,
  request: IdempotentRequest,
  operation: (tx: Tx) => Promise<T>,
): Promise<{ readonly result: T; readonly replayed: boolean }> {
  const { caller, idempotencyKey, body, now } = request;
  if (idempotencyKey === undefined) {
    return { result: await db.transaction().execute(operation), replayed: false };
  }
  const callerId = callerIdOf(caller.identity);
  const requestSha256 = createHash('sha256').update(canonicalJson(body)).digest();
  return await db.transaction().execute(async (tx) => {
    // A repetition waits for the first request to finish.
    await sql`SELECT pg_advisory_xact_lock(hashtextextended(${`${callerId} ${idempotencyKey}`}, 0))`.execute(
      tx,
    );
    await tx
      .deleteFrom('idempotent_answers')
      .where('created_at', '<', new Date(now.getTime() - RETENTION_MS))
      .execute();
    const stored = await tx
      .selectFrom('idempotent_answers')
      .selectAll()
      .where('key_id', '=', callerId)
      .where('idempotency_key', '=', idempotencyKey)
      .executeTakeFirst();
    if (stored) {
      const result =
        stored.request_sha256.equals(requestSha256) && unseal(caller.sealingKey(), stored.sealed_answer);
      if (!result) throw keyReused();
      return { result: JSON.parse(result.toString()) as T, replayed: true };
    }
    const result = await operation(tx);
    await tx
      .insertInto('idempotent_answers')
      .values({
        key_id: callerId,
        idempotency_key: idempotencyKey,
        request_sha256: requestSha256,
        sealed_answer: seal(caller.sealingKey(), Buffer.from(JSON.stringify(result))),
        created_at: now,
      })
      .execute();
    return { result, replayed: false };
  });
}

/** The key's id, or a hash of issuer and subject, which may be long. The prefix keeps it apart from key ids. */
function callerIdOf(identity: Identity): string {
  if (identity.kind === 'key') return identity.keyId;
  const { issuer, subject } = identity;
  return `oidc:${createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('hex')}`;
}

/** JSON that is equal for bodies that differ only in the order of their fields. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, inner) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

function keyReused(): AppError {
  return new AppError(
    'conflict',
    'idempotency_key_reused',
    'This Idempotency-Key was used within 24 hours for another request, or with another secret or token. Choose a new one.',
    { param: 'idempotency-key' },
  );
}
