import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, Strict } from '../../shared/schemas.ts';

export const Principal = Type.Object(
  { id: Type.String(), policy_id: Nullable(Type.String()), created_at: DateTime },
  { title: 'Principal' },
);
export type Principal = Static<typeof Principal>;

export const PrincipalChanges = Strict({ policy_id: Nullable(Type.String()) }, { title: 'PrincipalChanges' });
export type PrincipalChanges = Static<typeof PrincipalChanges>;

export const PrincipalListQuery = Strict({
  ...PageQuery,
  policy_id: Type.Optional(Type.String()),
  id_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
});
export type PrincipalListQuery = Static<typeof PrincipalListQuery>;
