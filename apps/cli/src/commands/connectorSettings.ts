import { callOperation, type components } from '@weighbridge/client';
import {
  createConnector,
  deleteConnector,
  getConnector,
  updateConnector,
} from '@weighbridge/client/operations';
import { type Command, InvalidArgumentError } from 'commander';
import { addCall, type Sent, send } from '../resources/calls.ts';
import type { Flags } from '../resources/flags.ts';
import type { Cli, Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { accountOptions } from './connectorAccount.ts';

type Connector = components['schemas']['Connector'];
type Auth = components['schemas']['ConnectorAuth'];

const FLAGS: Flags<keyof components['schemas']['ConnectorChanges']> = {
  dialect: { text: 'its API' },
  base_url: { flag: 'base-url <address>', text: 'its address; known providers have a default' },
  requests_per_minute: { text: 'what the account may get in a minute, over all proxies, or none' },
  tokens_per_minute: { text: 'the same in tokens, or none' },
  max_parallel: { text: 'most requests in flight at each proxy, or none' },
  connect_timeout_ms: { text: "time to connect, or none for the proxy's setting" },
  first_byte_timeout_ms: { text: 'time until the first byte, or none' },
  chunk_timeout_ms: { text: 'time between parts of a stream, or none' },
  on_disconnect: { flag: 'on-disconnect <what>', text: 'what to do with a stream whose client left' },
  chat: { text: 'which API of its vendor gets chat completions' },
  models: {
    flag: 'model <pattern>',
    text: 'a model that it serves, such as openai/gpt-*; may be repeated, or all',
    word: 'all',
  },
  upstream_names: {
    flag: 'upstream-name <model=name>',
    text: 'what this account calls a model; may be repeated, or none',
    word: 'none',
    read: collectNames,
  },
  forward_headers: {
    flag: 'forward-header <name>',
    text: 'a header of clients that it gets; may be repeated, or none',
    word: 'none',
  },
  // The options of the account set these three; `enable` and `disable` are commands.
  auth: null,
  credential: null,
  credential_ref: null,
  enabled: null,
};

export function addConnectorChanges(connectors: Command, cli: Cli): void {
  addCreate(connectors.command('create <name>'), cli);
  addCall(connectors.command('update <connector_id>'), cli, updateConnector, {
    description: 'change the given settings of a connector; what is stored sealed stays unless it is given',
    flags: FLAGS,
    more: (command) => accountOptions(command, cli),
    examples: [
      'weighbridge connectors update con_… --credential-file new-key.txt',
      'weighbridge connectors update con_… --priority 1 --max-parallel none --model all',
    ],
    send: change,
  });
  addCall(connectors.command('delete <connector_id>'), cli, deleteConnector, {
    description: 'delete a connector and its credential; its spend stays on record',
  });
}

function addCreate(command: Command, cli: Cli): void {
  addCall(command, cli, createConnector, {
    flags: {
      ...FLAGS,
      provider: { text: "the part of its models' ids before the slash" },
      enabled: {
        flag: 'disabled',
        text: 'send nothing to it until it is enabled',
        no: 'use it at once',
        resolve: (_session, isDisabled: boolean) => !isDisabled,
      },
    },
    more: (one) => accountOptions(one, cli),
    help: '\nNo option takes a secret itself, since other users of a machine can read options.',
    examples: [
      'weighbridge connectors create groq --provider groq --credential-env GROQ_API_KEY',
      'vault read … | weighbridge connectors create openai --provider openai --credential-file -',
      'weighbridge connectors create gpus --provider vllm --auth none --base-url http://vllm.models.svc:8000/v1',
      'weighbridge connectors create bedrock --provider bedrock --auth aws --region eu-central-1',
      'weighbridge connectors create azure --provider azure --base-url https://acme.openai.azure.com/openai/v1 --auth azure',
    ],
    send: async (session, sent) => {
      if (sent.body.auth && !(sent.body.auth as Auth).kind)
        throw new UsageError('Give the kind of authorisation with --auth too.');
      return await send(session, createConnector, sent);
    },
  });
}

/** The API replaces `auth` whole: what is not given stays as it is, unless the kind changes. */
async function change(session: Session, sent: Sent): Promise<Connector> {
  const auth = sent.body.auth as Partial<Auth> | undefined;
  if (!auth) return await send(session, updateConnector, sent);
  const { data, response } = await callOperation(session.client, getConnector, {
    params: { path: sent.path },
  });
  const before = (data as Connector).auth;
  const kept = auth.kind === undefined || auth.kind === before.kind ? before : {};
  // Someone else may have changed what is sent back here.
  const etag = response.headers.get('etag');
  const header = etag === null ? {} : { 'if-match': etag };
  return await send(session, updateConnector, {
    ...sent,
    header,
    body: { ...sent.body, auth: { ...kept, ...auth } },
  });
}

function collectNames(text: string, before: Record<string, string> | undefined): Record<string, string> {
  const [, model, name] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (model === undefined || name === undefined)
    throw new InvalidArgumentError('It must be a model, "=" and its name, such as openai/gpt-4o=our-gpt.');
  return { ...before, [model]: name };
}
