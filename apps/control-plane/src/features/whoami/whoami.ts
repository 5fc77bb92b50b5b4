import { type Static, Type } from 'typebox';
import type { Caller } from '../../shared/caller.ts';
import type { App } from '../../shared/fastify.ts';
import { DateTime, Nullable, OneOf } from '../../shared/schemas.ts';
import { policyOfCaller } from '../keys/effectiveKey.ts';
import { type KeyDeps, visibleKey } from '../keys/keys.service.ts';
import { PolicySource } from '../usage/usage.schemas.ts';

const Whoami = Type.Object(
  {
    principal_id: Type.String(),
    credential: OneOf(['key', 'token'], {
      title: 'CredentialKind',
      description: 'An issued key, or a token of the OIDC issuer.',
    }),
    key_id: Nullable(Type.String()),
    key_name: Nullable(Type.String()),
    scopes: Type.Array(Type.String()),
    expires_at: Nullable(DateTime),
    secret_expires_at: Nullable(
      Type.String({
        format: 'date-time',
        description:
          'When this secret stops working because the key was rotated; null: it is the current one.',
      }),
    ),
    policy_id: Nullable(
      Type.String({ description: 'The policy that governs the caller; null: none governs its principal.' }),
    ),
    policy_name: Nullable(Type.String()),
    policy_source: Nullable(PolicySource),
  },
  { title: 'Whoami' },
);
type Whoami = Static<typeof Whoami>;

export function whoamiRoutes(app: App, deps: KeyDeps): void {
  app.get(
    '/whoami',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'getWhoami',
        summary: 'Who the caller is, what it may do, and which policy governs it',
        response: { 200: Whoami },
      },
    },
    async ({ caller }) => await whoami(deps, caller),
  );
}

async function whoami(deps: KeyDeps, caller: Caller): Promise<Whoami> {
  const { identity, principalId, scopes, expiresAt } = caller;
  const key = identity.kind === 'key' ? await visibleKey(deps, caller, identity.keyId) : undefined;
  const policy = await policyOfCaller(deps.db, caller);
  return {
    principal_id: principalId,
    credential: identity.kind === 'key' ? 'key' : 'token',
    key_id: key?.id ?? null,
    key_name: key?.name ?? null,
    scopes: [...scopes],
    expires_at: expiresAt?.toISOString() ?? null,
    secret_expires_at: identity.kind === 'key' ? (identity.graceEndsAt?.toISOString() ?? null) : null,
    policy_id: policy?.id ?? null,
    policy_name: policy?.name ?? null,
    policy_source: policy?.source ?? null,
  };
}
