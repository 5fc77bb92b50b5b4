import type { components } from '@weighbridge/client';
import {
  deleteConnectorPrice,
  getConnector,
  listConnectorHealth,
  listConnectorPrices,
  listConnectors,
  putConnectorPrice,
  testConnector,
  updateConnector,
} from '@weighbridge/client/operations';
import { Command, InvalidArgumentError } from 'commander';
import { moneyFromDecimal } from '../apply/values.ts';
import { addCall, addList } from '../resources/calls.ts';
import { price } from '../session/output.ts';
import type { Cli } from '../session/session.ts';
import { addConnectorChanges } from './connectorSettings.ts';

export function connectorsCommand(cli: Cli): Command {
  const connectors = new Command('connectors').description('accounts at vendors');
  addReads(connectors, cli);
  addConnectorChanges(connectors, cli);
  addCall(connectors.command('test <connector_id>'), cli, testConnector, {
    description: 'have the proxies check a connector at its vendor; nothing is generated or billed',
    show: (session, result) => {
      session.showOne(result);
      if (!result.ok) throw new Error('The vendor did not accept the credential.');
    },
  });
  addPrices(connectors, cli);
  addCall(connectors.command('enable <connector_id>'), cli, updateConnector, {
    description: 'use a connector again',
    body: { enabled: true },
  });
  addCall(connectors.command('disable <connector_id>'), cli, updateConnector, {
    description: 'send nothing to a connector until it is enabled again',
    body: { enabled: false },
  });
  return connectors;
}

function addReads(connectors: Command, cli: Cli): void {
  addList(connectors.command('list'), cli, listConnectors, {
    columns: [
      ['ID', (connector) => connector.id],
      ['NAME', (connector) => connector.name],
      ['PROVIDER', (connector) => connector.provider],
      ['ENABLED', (connector) => connector.enabled],
      ['USABLE', (connector) => connector.usable],
      ['PRIORITY', (connector) => connector.priority],
      ['AUTH', (connector) => connector.auth.kind],
      ['CREDENTIAL', (connector) => secretOf(connector)],
      ['BASE URL', (connector) => connector.base_url],
    ],
  });
  addCall(connectors.command('show <connector_id>'), cli, getConnector, {
    description: 'show a connector, without its credential',
  });
  addList(connectors.command('health'), cli, listConnectorHealth, {
    description: 'list the circuit breakers over all proxies, and the attempts of the last five minutes',
    columns: [
      ['ID', (one) => one.connector_id],
      ['NAME', (one) => one.name],
      ['ENABLED', (one) => one.enabled],
      ['USABLE', (one) => one.usable],
      ['STATE', (one) => one.state],
      ['PROXIES NOT CLOSED', (one) => one.not_closed_at],
      ['ATTEMPTS', (one) => one.attempts],
      ['FAILED', (one) => one.failed_attempts],
    ],
  });
}

function addPrices(connectors: Command, cli: Cli): void {
  addList(connectors.command('prices <connector_id>'), cli, listConnectorPrices, {
    description: 'list the negotiated prices of a connector',
    query: { all_versions: { text: 'also versions that were replaced or have ended' } },
    columns: [
      ['MODEL', ({ model }) => model],
      ['INPUT', (one) => price(one.price?.input_price ?? null)],
      ['CACHED', (one) => price(one.price?.cache_read_price ?? null)],
      ['OUTPUT', (one) => price(one.price?.output_price ?? null)],
      ['VERSION', ({ version }) => version],
    ],
  });
  addCall(connectors.command('set-price <connector_id> <model>'), cli, putConnectorPrice, {
    description: 'set what an account pays for a model, in dollars per one million tokens',
    only: ['input_price', 'output_price', 'cache_read_price'],
    flags: {
      input_price: { flag: 'input <amount>', text: 'of input tokens, such as 0.15', read: amount },
      output_price: { flag: 'output <amount>', text: 'of output tokens', read: amount },
      cache_read_price: {
        flag: 'cache-read <amount>',
        text: 'of cached input tokens; default: as input',
        read: amount,
      },
    },
    help: '\nWhole prices, with tiers, variants and tools, go in a file for `weighbridge apply`.',
    examples: ['weighbridge connectors set-price con_… openai/gpt-4o-mini --input 0.12 --output 0.48'],
  });
  addCall(connectors.command('end-price <connector_id> <model>'), cli, deleteConnectorPrice, {
    description: "end a negotiated price: the catalog's applies again",
  });
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
