import { bodyOf, type components } from '@weighbridge/client';
import { Command, InvalidArgumentError } from 'commander';
import { moneyFromDecimal } from '../apply/values.ts';
import { price } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { addConnectorChanges } from './connectorSettings.ts';
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

  addConnectorChanges(connectors, cli);

  listOptions(connectors.command('health'))
    .description('list the circuit breakers over all proxies, and the attempts of the last five minutes')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/connectors/health', { params: { query: page } })),
      );
      session.showList(items, [
        ['ID', (one) => one.connector_id],
        ['NAME', (one) => one.name],
        ['ENABLED', (one) => one.enabled],
        ['USABLE', (one) => one.usable],
        ['STATE', (one) => one.state],
        ['PROXIES NOT CLOSED', (one) => one.not_closed_at],
        ['ATTEMPTS', (one) => one.attempts],
        ['FAILED', (one) => one.failed_attempts],
      ]);
    });

  connectors
    .command('test <connector_id>')
    .description('have the proxies check a connector at its vendor; nothing is generated or billed')
    .action(async (connector_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { connector_id } };
      const result = await bodyOf(session.client.POST('/api/v1/connectors/{connector_id}/test', { params }));
      session.showOne(result);
      if (!result.ok) throw new Error('The vendor did not accept the credential.');
    });

  listOptions(connectors.command('prices <connector_id>'))
    .description('list the negotiated prices of a connector')
    .action(async (connector_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(
          session.client.GET('/api/v1/connectors/{connector_id}/prices', {
            params: { path: { connector_id }, query: page },
          }),
        ),
      );
      session.showList(items, [
        ['MODEL', ({ model }) => model],
        ['INPUT', (one) => price(one.price?.input_price ?? null)],
        ['CACHED', (one) => price(one.price?.cache_read_price ?? null)],
        ['OUTPUT', (one) => price(one.price?.output_price ?? null)],
        ['VERSION', ({ version }) => version],
      ]);
    });

  connectors
    .command('set-price <connector_id> <model>')
    .description('set what an account pays for a model, in dollars per one million tokens')
    .requiredOption('--input <amount>', 'of input tokens, such as 0.15', amount)
    .requiredOption('--output <amount>', 'of output tokens', amount)
    .option('--cache-read <amount>', 'of cached input tokens; default: as input', amount)
    .addHelpText(
      'after',
      '\nWhole prices, with tiers, variants and tools, go in a file for `weighbridge apply`.\n\nExample:\n  weighbridge connectors set-price con_… openai/gpt-4o-mini --input 0.12 --output 0.48',
    )
    .action(async (connector_id: string, model: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const body = {
        input_price: options.input,
        output_price: options.output,
        ...(options.cacheRead && { cache_read_price: options.cacheRead }),
      };
      const params = { path: { connector_id, model } };
      session.showOne(
        await bodyOf(
          session.client.PUT('/api/v1/connectors/{connector_id}/prices/{model}', { params, body }),
        ),
      );
    });

  connectors
    .command('end-price <connector_id> <model>')
    .description("end a negotiated price: the catalog's applies again")
    .action(async (connector_id: string, model: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { connector_id, model } };
      session.showOne(
        await bodyOf(session.client.DELETE('/api/v1/connectors/{connector_id}/prices/{model}', { params })),
      );
    });

  for (const [name, enabled] of [
    ['enable', true],
    ['disable', false],
  ] as const) {
    connectors
      .command(`${name} <connector_id>`)
      .description(
        enabled ? 'use a connector again' : 'send nothing to a connector until it is enabled again',
      )
      .action(async (connector_id: string, _options, command: Command) => {
        const session = await openSession(cli, command);
        const params = { path: { connector_id } };
        const body = { enabled };
        session.showOne(
          await bodyOf(session.client.PATCH('/api/v1/connectors/{connector_id}', { params, body })),
        );
      });
  }

  return connectors;
}

/** Where the secret is that the account is called with, or that buys its tokens. */
function secretOf({
  auth,
  credential_sealed,
  credential_ref,
}: components['schemas']['Connector']): string | null {
  if (credential_sealed) return 'sealed';
  return auth.client_secret ?? auth.secret_access_key ?? auth.credentials ?? credential_ref;
}

function amount(text: string) {
  try {
    return moneyFromDecimal(text.replace(/^\$/, ''));
  } catch (error) {
    throw new InvalidArgumentError(`${(error as Error).message}.`);
  }
}
