import { isDeepStrictEqual } from 'node:util';
import { bucketKey } from '@weighbridge/budget';
import type { Tx } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import { type Caller, credentialName, isCallingKey, isOperator } from '../../shared/caller.ts';
import type { Scope } from '../../shared/scopes.ts';
import { type CountedKey, countersOfKey, type GoverningPolicy } from '../policies/policies.service.ts';
import { type EffectiveKey, effectiveKeyOf, policyOfCaller } from './effectiveKey.ts';
import { mayAssignPolicy } from './keyPolicy.ts';
import type { KeyRow } from './keys.repository.ts';
import type { Attribution } from './keys.schemas.ts';
import { assertExpiryAllowed, grantableScopes } from './keys.ts';

/**
 * Throws a 403 if the new secret would give the caller more than it has. Whoever rotates a key can use all its scopes,
 * spend from its counters and spend under its attribution. A key may always rotate itself.
 */
export async function assertMayRotate(
  tx: Tx,
  caller: Caller,
  key: KeyRow,
  policy: GoverningPolicy,
  now: Date,
): Promise<void> {
  if (isOperator(caller) || isCallingKey(caller, key.id)) return;
  grantableScopes(caller, key.scopes as Scope[]);
  assertExpiryAllowed(caller, key.expires_at);
  if (!(await mayAssignPolicy(tx, caller, policy, { principalId: key.principal_id, kind: key.kind }))) {
    throw new AppError(
      'permission',
      'policy_not_assignable',
      'This key is governed by another policy than yours. Ask an operator to rotate it.',
    );
  }
  const own = await effectiveKeyOf(tx, caller);
  // A token's principal may have no policy. Then it has no counter to share either.
  const governed = (await policyOfCaller(tx, caller)) !== undefined;
  if (!governed || !(await haveSameCounters(tx, own, key, now))) throw rotationRefused(caller, 'counter');
  if (!haveSameAttribution(own, key)) throw rotationRefused(caller, 'attribution');
}

/** Whether two keys spend from the same counters: those of the governing policy and of all its parents. */
async function haveSameCounters(tx: Tx, a: CountedKey, b: CountedKey, now: Date): Promise<boolean> {
  const keysOf = async (key: CountedKey) =>
    (await countersOfKey(tx, key, now)).counters.map(({ bucket }) => bucketKey(bucket));
  return isDeepStrictEqual(await keysOf(a), await keysOf(b));
}

type Attributed = Pick<EffectiveKey, 'attribution'>;

function haveSameAttribution(a: Attributed, b: Attributed): boolean {
  // Without labels and with none of them is the same.
  const normal = ({ attribution }: Attributed) => {
    const { labels = {}, ...texts } = attribution as Attribution;
    return { labels, ...texts };
  };
  return isDeepStrictEqual(normal(a), normal(b));
}

function rotationRefused(caller: Caller, differs: 'counter' | 'attribution'): AppError {
  const what = { counter: 'draws on another counter', attribution: 'has another attribution' }[differs];
  return new AppError(
    'permission',
    'rotation_not_allowed',
    `This key ${what} than your ${credentialName(caller)}. Rotate it with its own secret, or ask an operator.`,
  );
}
