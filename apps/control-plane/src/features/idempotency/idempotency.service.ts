import { createHash } from 'node:crypto';
import type { Database, Tx } from '@weighbridge/database';
import { seal, unseal } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { sql } from 'kysely';
import type { Caller, Identity } from '../../shared/caller.ts';

export interface IdempotentRequest {
  readonly caller: Caller;
  /** The caller's `Idempotency-Key`; undefined where it sent none. */
  readonly idempotencyKey: string | undefined;
  readonly body: unknown;
  readonly now: Date;
}

const KEPT_MS = 24 * 60 * 60 * 1_000;
const FORM = /^[\x21-\x7e]{1,255}$/;

/**
 * Does a piece of work once per caller and `Idempotency-Key` within 24 hours: a repetition gets the first answer
 * again. The answer is kept sealed under the caller's own token, since it may hold a secret.
 */
export async function answerOnce<T>(
  db: Database,
  request: IdempotentRequest,
  work: (tx: Tx) => Promise<T>,
): Promise<{ readonly answer: T; readonly replayed: boolean }> {
  const { caller, idempotencyKey, body, now } = request;
  if (idempotencyKey === undefined) {
    return { answer: await db.transaction().execute(work), replayed: false };
  }
  if (!FORM.test(idempotencyKey)) {
    throw new AppError(
      'invalid_request',
      'invalid_request',
      'Idempotency-Key: must be 1 to 255 visible ASCII characters.',
      {
        param: 'idempotency-key',
      },
    );
  }
  const callerId = idOf(caller.identity);
  const requestSha256 = createHash('sha256').update(canonicalJson(body)).digest();
  return await db.transaction().execute(async (tx) => {
    // A repetition that comes while the first is under way waits for it.
    await sql`SELECT pg_advisory_xact_lock(hashtextextended(${`${callerId} ${idempotencyKey}`}, 0))`.execute(
      tx,
    );
    await tx
      .deleteFrom('idempotent_answers')
      .where('created_at', '<', new Date(now.getTime() - KEPT_MS))
      .execute();
    const kept = await tx
      .selectFrom('idempotent_answers')
      .selectAll()
      .where('key_id', '=', callerId)
      .where('idempotency_key', '=', idempotencyKey)
      .executeTakeFirst();
    if (kept) {
      const answer =
        kept.request_sha256.equals(requestSha256) && unseal(caller.answerKey(), kept.sealed_answer);
      if (!answer) throw reused();
      return { answer: JSON.parse(answer.toString()) as T, replayed: true };
    }
    const answer = await work(tx);
    await tx
      .insertInto('idempotent_answers')
      .values({
        key_id: callerId,
        idempotency_key: idempotencyKey,
        request_sha256: requestSha256,
        sealed_answer: seal(caller.answerKey(), Buffer.from(JSON.stringify(answer))),
        created_at: now,
      })
      .execute();
    return { answer, replayed: false };
  });
}

/** A key's id; or what stands for the issuer and its subject, which may be long, and which no key's id looks like. */
function idOf(identity: Identity): string {
  if (identity.kind === 'key') return identity.keyId;
  const { issuer, subject } = identity;
  return `oidc:${createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('hex')}`;
}

/** The same for bodies that differ only in the order of their fields. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, inner) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

function reused(): AppError {
  return new AppError(
    'conflict',
    'idempotency_key_reused',
    'This Idempotency-Key was used for another request within 24 hours, or with another secret or token of yours. Choose a new one.',
    { param: 'idempotency-key' },
  );
}
