import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, QueryBoolean, Strict, TextByName } from '../../shared/schemas.ts';
import { SCOPES } from '../../shared/scopes.ts';

const Kind = OneOf(['service', 'user'], {
  title: 'KeyKind',
  description: 'The kind of its holder.',
});
const attributed = (to: string) =>
  Type.Optional(
    Type.String({ maxLength: 256, description: `The ${to} that its requests are attributed to.` }),
  );
export const Attribution = Strict(
  {
    user: attributed('user'),
    team: attributed('team'),
    project: attributed('project'),
    env: attributed('environment'),
    labels: Type.Optional(TextByName({ maxLength: 256 }, { title: 'Labels', maxProperties: 32 })),
  },
  { title: 'Attribution' },
);
export type Attribution = Static<typeof Attribution>;

const properties = {
  id: Type.String(),
  name: Type.String(),
  kind: Kind,
  disabled: Type.Boolean(),
  expires_at: Nullable(DateTime),
  last_used_at: Nullable(DateTime),
  created_at: DateTime,
  updated_at: DateTime,
  revoked_at: Nullable(DateTime),
  grace_ends_at: Nullable(
    Type.String({
      format: 'date-time',
      description:
        'Until when the secret that a rotation replaced can still read and infer; null if it has expired.',
    }),
  ),
  policy_id: Type.String({ description: 'The policy that governs the key now.' }),
  key_hint: Type.String(),
  scopes: Type.Array(Type.String()),
  principal_id: Type.String(),
  attribution: Attribution,
  managed_by: Nullable(
    Type.String({
      description: 'The owner of the files that `apply` issued it for; null if issued by hand.',
    }),
  ),
};
export const Key = Type.Object(properties, { title: 'Key' });
export type Key = Static<typeof Key>;

export const IssuedKey = Type.Object(
  { ...properties, key: Type.String({ description: 'The secret. It is shown only once.' }) },
  { title: 'IssuedKey' },
);
export type IssuedKey = Static<typeof IssuedKey>;

export const RevokedKey = Type.Object(
  {
    ...properties,
    descendants: Type.Optional(
      Type.Object(
        {
          revoked: Type.Integer({
            description: 'How many keys in use were issued with it, or with those, and are revoked now.',
          }),
          unknown_issuer: Type.Integer({
            description:
              'How many keys in use may descend from it too: an earlier release issued them and recorded no issuer.',
          }),
        },
        { title: 'RevokedDescendants', description: 'Only if the query asked for descendants.' },
      ),
    ),
  },
  { title: 'RevokedKey' },
);
export type RevokedKey = Static<typeof RevokedKey>;

export const RevocationQuery = Strict({
  descendants: Type.Optional(
    QueryBoolean('Whether to also revoke the keys that were issued with this key, with those, and so on.'),
  ),
});

export const NewKey = Strict(
  {
    name: Type.String(),
    kind: Type.Optional(Kind),
    disabled: Type.Optional(Type.Boolean()),
    expires_at: Type.Optional(Nullable(DateTime)),
    policy_id: Type.Optional(Nullable(Type.String({ description: 'The policy that governs it.' }))),
    scopes: Type.Optional(Nullable(Type.Array(OneOf(SCOPES, { title: 'NewKeyScope' })))),
    principal_id: Type.Optional(
      Type.String({
        description: "The principal that owns it (operators only; default: the caller's own).",
      }),
    ),
    attribution: Type.Optional(Attribution),
    managed_by: Type.Optional(
      Nullable(
        Type.String({
          minLength: 1,
          maxLength: 100,
          description:
            'For operators: the owner of the files that have this key. An owner has one key of a name that is not revoked.',
        }),
      ),
    ),
  },
  { title: 'NewKey' },
);
export type NewKey = Static<typeof NewKey>;

export const KeyChanges = Strict(
  {
    name: Type.Optional(Type.String()),
    disabled: Type.Optional(Type.Boolean()),
    expires_at: Type.Optional(Nullable(DateTime)),
    policy_id: Type.Optional(Nullable(Type.String({ description: 'The policy that governs it.' }))),
    attribution: Type.Optional(Attribution),
  },
  { title: 'KeyChanges' },
);
export type KeyChanges = Static<typeof KeyChanges>;

export const KeyQuery = Strict({
  ...PageQuery,
  principal_id: Type.Optional(Type.String()),
  team_id: Type.Optional(Type.String({ description: "The team that the key's principal is in now." })),
  policy_id: Type.Optional(Type.String({ description: 'The policy that governs the key.' })),
  kind: Type.Optional({ ...Kind, description: 'Only keys of this kind.' }),
  disabled: Type.Optional(QueryBoolean('Whether the key is disabled.')),
  revoked: Type.Optional(QueryBoolean('Whether the key is revoked.')),
  expiring_before: Type.Optional(DateTime),
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  managed_by: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'The owner of the files that have the key.' }),
  ),
});
export type KeyQuery = Static<typeof KeyQuery>;

const MAX_GRACE_SECONDS = 30 * 24 * 60 * 60;
export const Rotation = Strict(
  {
    grace_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_GRACE_SECONDS,
        description:
          'For how long the old secret can still read and infer. It can no longer change anything.',
      }),
    ),
  },
  { title: 'NewRotation' },
);
