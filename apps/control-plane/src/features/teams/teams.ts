import { AppError } from '@weighbridge/errors';

/**
 * The most teams in a line from the top of the tree. Each adds the chain of its policy to every request, and the ledger takes at
 * most 64 counters of a request.
 */
export const MAX_TEAM_DEPTH = 5;
/** The most members that a report of a team lists. */
export const MAX_LISTED_MEMBERS = 1_000;

export function teamNotFound(): AppError {
  return new AppError('not_found', 'team_not_found', 'There is no team with this id.', { param: 'team_id' });
}

export function parentTeamNotFound(): AppError {
  return new AppError('validation', 'team_not_found', 'There is no team with this parent_team_id.', {
    param: 'parent_team_id',
  });
}

export function memberNotFound(): AppError {
  return new AppError('not_found', 'member_not_found', 'The team has no member with this principal id.', {
    param: 'principal_id',
  });
}

export function teamCycle(): AppError {
  return new AppError(
    'validation',
    'team_cycle',
    'A team cannot be above itself. Choose another parent_team_id.',
    { param: 'parent_team_id' },
  );
}

export function teamTooDeep(): AppError {
  return new AppError(
    'validation',
    'team_too_deep',
    `At most ${MAX_TEAM_DEPTH} teams may stand in a line, from the top one down. Choose another parent_team_id.`,
    { param: 'parent_team_id' },
  );
}

export function teamNameTaken(name: string, otherId: string): AppError {
  return new AppError(
    'conflict',
    'team_name_taken',
    `The team ${otherId} is already named ${JSON.stringify(name)}. Choose another name.`,
    { param: 'name', details: { team_id: otherId } },
  );
}

export function teamInUse(what: string): AppError {
  return new AppError('conflict', 'team_in_use', `This team has ${what}. Move them to another team first.`);
}
