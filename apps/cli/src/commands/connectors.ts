import { bodyOf, type components } from '@weighbridge/client';
import { Command } from 'commander';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { limitOf, listOptions } from './options.ts';

export function connectorsCommand(cli: Cli): Command {
  const connectors = new Command('connectors').description('accounts at vendors');

  listOptions(connectors.command('list'))
    .description('list connectors, newest first')
    .option('--provider <provider>', 'only of this provider')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = { ...(options.provider && { provider: options.provider }) };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/connectors', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, [
        ['ID', (connector) => connector.id],
        ['NAME', (connector) => connector.name],
        ['PROVIDER', (connector) => connector.provider],
        ['ENABLED', (connector) => connector.enabled],
        ['USABLE', (connector) => connector.usable],
        ['PRIORITY', (connector) => connector.priority],
        ['AUTH', (connector) => connector.auth.kind],
        ['CREDENTIAL', (connector) => secretOf(connector)],
        ['BASE URL', (connector) => connector.base_url],
      ]);
    });

  connectors
    .command('show <connector_id>')
    .description('show a connector, without its credential')
    .action(async (connector_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { connector_id } };
      session.showOne(await bodyOf(session.client.GET('/api/v1/connectors/{connector_id}', { params })));
    });

  connectors
    .command('test <connector_id>')
    .description("check a connector's credential at its vendor; nothing is generated or billed")
    .action(async (connector_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { connector_id } };
      const result = await bodyOf(session.client.POST('/api/v1/connectors/{connector_id}/test', { params }));
      session.showOne(result);
      if (!result.ok) throw new Error('The vendor did not accept the credential.');
    });

  return connectors;
}

/** Where the secret is that the account is called with, or that buys its tokens. */
function secretOf({
  auth,
  credential_sealed,
  credential_ref,
}: components['schemas']['Connector']): string | null {
  return credential_sealed ? 'sealed' : (auth.client_secret ?? auth.secret_access_key ?? credential_ref);
}
