import type { Database } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import type { Identity } from '../../shared/caller.ts';
import { recordChange } from '../changes/changes.service.ts';
import { lockGovernance } from '../policies/governance.ts';
import { writePrincipal } from '../principals/writePrincipal.service.ts';
import { setMembership } from '../teams/members.service.ts';
import { findTeamByName } from '../teams/teams.service.ts';

/** The team that the claims of a token map to, by its name. */
export interface TeamOfToken {
  readonly name: string;
  readonly role: 'member' | 'lead';
}

/**
 * Creates the principal of a token, and puts it into the team that the token's claims map to. Throws a 403 if there is no such team:
 * its spend would otherwise count nowhere.
 */
export async function joinTeamOfToken(
  { db, now }: { readonly db: Database; readonly now: () => Date },
  actor: { readonly principalId: string; readonly identity: Identity },
  wanted: TeamOfToken | null,
): Promise<void> {
  const at = now();
  const { principalId } = actor;
  await db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    if (wanted) {
      const team = await findTeamByName(tx, wanted.name);
      if (!team) throw teamUnknown(wanted.name);
      await setMembership(tx, actor, principalId, { id: team.id, role: wanted.role }, at);
      return;
    }
    if (!(await writePrincipal(tx, principalId, {}, at))) return;
    await recordChange(tx, { actor, action: 'principal.created', resourceId: principalId, at });
  });
}

function teamUnknown(name: string): AppError {
  const message = `The claims of this token map to the team ${JSON.stringify(name)}, which does not exist. Ask an operator to create it.`;
  return new AppError('permission', 'team_unknown', message);
}
