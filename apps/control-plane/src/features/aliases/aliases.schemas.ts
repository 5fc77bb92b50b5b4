import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, Strict } from '../../shared/schemas.ts';

const settings = {
  name: Type.String({
    description: 'What requests send as `model`: an exact name, or a beginning followed by `*`.',
    examples: ['claude-*'],
  }),
  target: Type.String({
    description: 'What the name stands for: `<provider>/<model>` or `router/<profile>`, never another alias.',
    examples: ['mock/echo'],
  }),
};
const PolicyId = Nullable(
  Type.String({ description: 'The policy whose keys have the alias. Null: all keys have it.' }),
);

/** An operator's name for a model or a profile. */
export const Alias = Type.Object(
  {
    id: Type.String(),
    ...settings,
    policy_id: PolicyId,
    usable: Type.Boolean({
      description: 'Requests can use it now, as far as their policies allow the target.',
    }),
    unusable_reason: Nullable(Type.String()),
    created_at: DateTime,
    updated_at: DateTime,
  },
  { title: 'Alias' },
);
export type Alias = Static<typeof Alias>;
export type AliasSettings = Pick<Alias, 'name' | 'target' | 'policy_id'>;

export const NewAlias = Strict({ ...settings, policy_id: Type.Optional(PolicyId) }, { title: 'NewAlias' });
export type NewAlias = Static<typeof NewAlias>;

export const AliasChanges = Strict(Type.Partial(NewAlias).properties, { title: 'AliasChanges' });
export type AliasChanges = Static<typeof AliasChanges>;

export const AliasQuery = Strict({
  ...PageQuery,
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  policy_id: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
});
export type AliasQuery = Static<typeof AliasQuery>;
