import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, OneOf, QueryBoolean, Strict } from '../../shared/schemas.ts';
import { TeamRole } from '../teams/teams.schemas.ts';

const PrincipalRole = OneOf(['operator', 'finance', 'auditor'], {
  title: 'PrincipalRole',
  description:
    'Over whose objects its scopes reach: operator, all; finance, reads the spend and requests of all; auditor, reads all. Null: its own, and those of a team that it leads.',
});

const properties = {
  policy_id: Nullable(Type.String({ description: 'Governs its keys that have no policy of their own.' })),
  role: Nullable(PrincipalRole),
  active: Type.Boolean({ description: 'False: its keys are disabled, and its tokens refused.' }),
};

export const Principal = Type.Object(
  {
    id: Type.String(),
    ...properties,
    team_id: Nullable(Type.String()),
    team_name: Nullable(Type.String()),
    team_role: Nullable(TeamRole),
    created_at: DateTime,
  },
  { title: 'Principal' },
);
export type Principal = Static<typeof Principal>;

export const PrincipalChanges = Strict(Type.Partial(Type.Object(properties)).properties, {
  title: 'PrincipalChanges',
  description: 'What is left out stays as it is.',
});
export type PrincipalChanges = Static<typeof PrincipalChanges>;

export const PrincipalListQuery = Strict({
  ...PageQuery,
  policy_id: Type.Optional(Type.String()),
  team_id: Type.Optional(Type.String()),
  role: Type.Optional(PrincipalRole),
  active: Type.Optional(QueryBoolean('Whether it is active.')),
  id_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
});
export type PrincipalListQuery = Static<typeof PrincipalListQuery>;
