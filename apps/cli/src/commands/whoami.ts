import { bodyOf, type components } from '@weighbridge/client';
import { Command } from 'commander';
import { time, usd } from '../session/output.ts';
import { type Cli, openSession } from '../session/session.ts';

export function whoamiCommand(cli: Cli): Command {
  return new Command('whoami')
    .description('who the key or token belongs to, what it may do, and which policy governs it')
    .action(async (_options, command: Command) => {
      const session = await openSession(cli, command);
      const who = await bodyOf(session.client.GET('/api/v1/whoami'));
      session.showOne(who, {
        principal: who.principal_id,
        [who.credential]:
          who.key_id === null ? 'of the OIDC issuer' : `${who.key_name ?? ''} (${who.key_id})`,
        scopes: who.scopes,
        roles: who.roles,
        teams: who.teams.map(teamText),
        policy:
          who.policy_id === null
            ? null
            : `${who.policy_name ?? ''} (${who.policy_id}, by ${who.policy_source ?? ''})`,
        ...(who.override && {
          override: `${usd(who.override.limit_micro_usd)} until ${time(who.override.ends_at)}: ${who.override.reason}`,
        }),
        expires: time(who.expires_at),
        ...(who.secret_expires_at !== null && {
          'this secret, replaced, expires': time(who.secret_expires_at),
        }),
        service: session.connection.baseUrl,
      });
    });
}

function teamText({ name, id, role, frozen }: components['schemas']['WhoamiTeam']): string {
  return `${name} (${[id, role, frozen && 'frozen'].filter(Boolean).join(', ')})`;
}
