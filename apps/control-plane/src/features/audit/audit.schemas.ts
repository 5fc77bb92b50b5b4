import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { ByName, DateTime, Nullable, Strict } from '../../shared/schemas.ts';

export const AuditEntry = Type.Object(
  {
    id: Type.String(),
    at: DateTime,
    actor_principal_id: Type.String(),
    actor_key_id: Nullable(Type.String()),
    actor_oidc_issuer: Nullable(
      Type.String({ description: "The token's issuer, if the actor authenticated with a token." }),
    ),
    actor_oidc_subject: Nullable(Type.String({ description: "The token's subject (`sub`)." })),
    action: Type.String({ description: 'resource.verb, such as key.created' }),
    resource_id: Type.String(),
    detail: ByName(Type.Unknown(), { title: 'AuditDetail', description: 'What changed, by field.' }),
  },
  { title: 'AuditEntry' },
);
export type AuditEntry = Static<typeof AuditEntry>;

const Text = Type.Optional(Type.String({ minLength: 1, maxLength: 200 }));

export const AuditListQuery = Strict({
  ...PageQuery,
  resource_id: Text,
  actor_principal_id: Text,
  action: Text,
  from: Type.Optional(DateTime),
  to: Type.Optional(DateTime),
});
export type AuditListQuery = Static<typeof AuditListQuery>;
