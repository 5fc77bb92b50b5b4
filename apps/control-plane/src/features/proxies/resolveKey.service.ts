import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  type ResolveKeysResponse,
  type ResolveResponse,
  ResolveResponseSchema,
} from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { type KeyColumns, keyMessage, MAX_KEYS_PER_CALL } from '@weighbridge/state';
import { findKeysByTokenSha256 } from '../keys/keySecrets.service.ts';
import type { ModelDeps } from '../models/models.service.ts';
import { countersOfKeys, type KeyCounters } from '../policies/policies.service.ts';

/** A proxy that hears of no changes resolves a key again after at most this time. */
const MAX_KEY_AGE_MS = 60_000;
/** Of the responses of one call: keys under policies with long lists of models take more. */
const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;

type Deps = Pick<ModelDeps, 'db' | 'now' | 'peppers'>;

/** A key with its counters, by the SHA-256 of its token; no key if none has this token. */
export async function resolveKey(deps: Deps, tokenSha256: Uint8Array): Promise<ResolveResponse> {
  const { responses } = await resolveKeys(deps, [tokenSha256]);
  return responses[0] ?? create(ResolveResponseSchema);
}

/** As `resolveKey`, of many tokens in two statements: the first ones whose responses fit into a call, and at least one. */
export async function resolveKeys(
  deps: Deps,
  tokenSha256s: readonly Uint8Array[],
): Promise<Pick<ResolveKeysResponse, 'responses'>> {
  if (tokenSha256s.length > MAX_KEYS_PER_CALL) throw tooManyKeys();
  // The revision is that of the statement that finds the keys: a change committed after it is sent once more by the stream, and
  // never missed.
  const { revision, keys } = await findKeysByTokenSha256(deps, tokenSha256s);
  const now = deps.now();
  const known = keys.flatMap((key) => key ?? []);
  const counters = known.length === 0 ? [] : await countersOfKeys(deps.db, known, now);
  const countersOf = new Map(known.map((key, at) => [key, counters[at]]));
  const responses: ResolveResponse[] = [];
  let bytes = 0;
  for (const key of keys) {
    const counted = key && countersOf.get(key);
    const message = counted ? response(key, counted, now) : { maxAgeMs: 0 };
    const next = create(ResolveResponseSchema, { ...message, revision });
    if (tokenSha256s.length > 1) bytes += toBinary(ResolveResponseSchema, next).length;
    if (bytes > MAX_RESPONSE_BYTES && responses.length > 0) break;
    responses.push(next);
  }
  return { responses };
}

function response(
  row: KeyColumns & { readonly secret_expires_at: Date | null },
  counters: KeyCounters,
  now: Date,
): MessageInitShape<typeof ResolveResponseSchema> {
  const ends = [row.expires_at, row.secret_expires_at].filter((at) => at !== null).map((at) => at.getTime());
  // A proxy checks the expiry at every request, so a rotated secret ends on time in each proxy.
  const expiresAt = ends.length > 0 ? new Date(Math.min(...ends)) : null;
  const key = keyMessage({ ...row, expires_at: expiresAt }, counters, now);
  return { key, maxAgeMs: maxAgeMs(counters, now), changesAnnounced: true };
}

/** Until the first window ends, and at most MAX_KEY_AGE_MS. */
function maxAgeMs({ counters, replacements }: KeyCounters, now: Date): number {
  const all = [...counters, ...replacements.flatMap((replacement) => replacement.counters)];
  const windows = all.flatMap(({ window, limits }) => [window, ...limits.map((limit) => limit.window)]);
  const remaining = windows.flatMap(({ end }) => (end ? end.getTime() - now.getTime() : []));
  return Math.max(1, Math.min(MAX_KEY_AGE_MS, ...remaining));
}

function tooManyKeys(): AppError {
  return new AppError(
    'invalid_request',
    'too_many_keys',
    `A call looks up at most ${MAX_KEYS_PER_CALL} keys.`,
  );
}
