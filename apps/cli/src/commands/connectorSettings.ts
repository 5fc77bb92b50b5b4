import { bodyOf, type components } from '@weighbridge/client';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type Cli, openSession, type Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { attributeOf, collectList, parsePositiveInteger } from './options.ts';

type Connector = components['schemas']['Connector'];
type Auth = components['schemas']['ConnectorAuth'];
type NewConnector = components['schemas']['NewConnector'];
type ConnectorChanges = components['schemas']['ConnectorChanges'];
type Options = Readonly<Record<string, unknown>>;

const KINDS = ['key', 'none', 'oauth', 'aws', 'google', 'azure'] as const;

/** The fields of `auth` that are not secret, with what they mean. */
const AUTH_FIELDS = {
  token_url: 'of oauth: where tokens are issued',
  client_id: 'of oauth and azure: the client',
  scope: 'of oauth and azure: what the tokens are for',
  audience: 'of oauth: the API that the tokens are for',
  tenant_id: 'of azure: the tenant',
  authority_host: 'of azure: where tokens are issued',
  region: 'of aws, such as eu-central-1',
  access_key_id: "of aws; without it, the proxy's own identity",
  role_arn: 'of aws: a role to assume',
  external_id: 'of aws, with --role-arn, if the role asks for it',
  project: 'of google: the id of the project',
  location: 'of google, such as europe-west1',
} as const;

/** What is secret: its name in the API, and what it is. */
const SECRETS = {
  credential: 'the credential',
  client_secret: 'of oauth and azure: the secret of the client',
  secret_access_key: 'of aws: the secret of the access key',
  session_token: 'of aws: the token of a temporary access key',
  credentials: 'of google: the key of a service account, as JSON',
} as const;
type SecretName = keyof typeof SECRETS;

export function addConnectorChanges(connectors: Command, cli: Cli): void {
  settingOptions(connectors.command('create <name>'))
    .description('create a connector')
    .requiredOption('--provider <provider>', "the part of its models' ids before the slash")
    .option('--disabled', 'send nothing to it until it is enabled')
    .addHelpText(
      'after',
      '\nNo option takes a secret itself, since other users of a machine can read options.\n\nExamples:\n  weighbridge connectors create groq --provider groq --credential-env GROQ_API_KEY\n  vault read … | weighbridge connectors create openai --provider openai --credential-file -\n  weighbridge connectors create gpus --provider vllm --auth none --base-url http://vllm.models.svc:8000/v1\n  weighbridge connectors create bedrock --provider bedrock --auth aws --region eu-central-1\n  weighbridge connectors create azure --provider azure --base-url https://acme.openai.azure.com/openai/v1 --auth azure',
    )
    .action(async (name: string, options, command: Command) => {
      const { provider, disabled } = options;
      const { auth, ...settings } = await settingsOf(cli, options);
      if (auth && !options.auth) throw new UsageError('Give the kind of authorisation with --auth too.');
      const session = await openSession(cli, command);
      const body = {
        name,
        provider,
        ...(disabled && { enabled: false }),
        ...(auth && { auth: { ...auth, kind: options.auth } }),
        ...settings,
      } as NewConnector;
      session.showOne(await bodyOf(session.client.POST('/api/v1/connectors', { body })));
    });

  settingOptions(connectors.command('update <connector_id>'))
    .description('change the given settings of a connector; what is stored sealed stays unless it is given')
    .option('--name <name>', 'another name')
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge connectors update con_… --credential-file new-key.txt\n  weighbridge connectors update con_… --priority 1 --max-parallel none --model all',
    )
    .action(async (connector_id: string, options, command: Command) => {
      const { auth, ...settings } = await settingsOf(cli, options);
      const body = { ...settings, ...(options.name !== undefined && { name: options.name }) };
      if (!auth && Object.keys(body).length === 0)
        throw new UsageError('Nothing to change. Give at least one option.');
      const session = await openSession(cli, command);
      session.showOne(await change(session, connector_id, body, auth && { ...auth, kind: options.auth }));
    });

  connectors
    .command('delete <connector_id>')
    .description('delete a connector and its credential; its spend stays on record')
    .action(async (connector_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { connector_id } };
      session.showOne(await bodyOf(session.client.DELETE('/api/v1/connectors/{connector_id}', { params })));
    });
}

/** The API replaces `auth` whole: what is not given stays as it is, unless the kind changes. */
async function change(
  session: Session,
  connector_id: string,
  settings: ConnectorChanges,
  auth: Partial<Auth> | undefined,
): Promise<Connector> {
  const path = '/api/v1/connectors/{connector_id}';
  const params = { path: { connector_id } };
  if (!auth) return await bodyOf(session.client.PATCH(path, { params, body: settings }));
  const { data, response } = await session.client.GET(path, { params });
  const before = (data as Connector).auth;
  const kept = auth.kind === undefined || auth.kind === before.kind ? before : {};
  const given = Object.fromEntries(Object.entries(auth).filter(([, value]) => value !== undefined));
  const body = { ...settings, auth: { ...kept, ...given } as Auth };
  // Someone else may have changed what is sent back here.
  const etag = response.headers.get('etag');
  const headers = etag === null ? {} : { 'if-match': etag };
  return await bodyOf(session.client.PATCH(path, { params, body, headers }));
}

function settingOptions(command: Command): Command {
  const withAuth = command
    .addOption(new Option('--dialect <dialect>', 'its API').choices(['openai', 'anthropic']))
    .option('--base-url <address>', 'its address; known providers have a default')
    .addOption(new Option('--auth <kind>', 'how requests are authorised; default: key').choices(KINDS));
  for (const [field, text] of Object.entries(SECRETS) as [SecretName, string][]) {
    const name = optionName(field);
    const [file, env, ref] = [`${name}-file`, `${name}-env`, `${name}-ref`];
    withAuth
      .addOption(
        new Option(`--${file} <file>`, `a file with ${text}; - for standard input`).conflicts(
          [env, ref].map(attributeOf),
        ),
      )
      .addOption(
        new Option(`--${env} <name>`, `a variable of this environment with ${text}`).conflicts(
          attributeOf(ref),
        ),
      )
      .option(`--${ref} <reference>`, `where the control plane finds ${text}: env:NAME or file:/path`);
  }
  for (const [field, text] of Object.entries(AUTH_FIELDS))
    withAuth.option(`--${optionName(field)} <text>`, text);
  return withAuth
    .addOption(
      new Option('--client-authentication <where>', 'of oauth: in the body, or in the header').choices([
        'post',
        'basic',
      ]),
    )
    .option('--priority <n>', 'connectors with a lower number are tried first', wholeNumber)
    .option('--weight <n>', 'share among connectors of the same priority', parsePositiveInteger)
    .option('--max-parallel <n>', 'most requests in flight at each proxy, or none', countOrNone)
    .option('--connect-timeout-ms <n>', "time to connect, or none for the proxy's setting", countOrNone)
    .option('--first-byte-timeout-ms <n>', 'time until the first byte, or none', countOrNone)
    .option('--chunk-timeout-ms <n>', 'time between parts of a stream, or none', countOrNone)
    .addOption(
      new Option('--on-disconnect <what>', 'what to do with a stream whose client left').choices([
        'cancel',
        'drain',
        'none',
      ]),
    )
    .option(
      '--model <pattern>',
      'a model that it serves, such as openai/gpt-*; may be repeated, or all',
      collectList,
    )
    .option(
      '--upstream-name <model=name>',
      'what this account calls a model; may be repeated, or none',
      collectNames,
    )
    .option(
      '--forward-header <name>',
      'a header of clients that it gets; may be repeated, or none',
      collectList,
    );
}

type Settings = Omit<ConnectorChanges, 'auth'> & { readonly auth?: Partial<Auth> };

/** The fields of the API of the options that were given; `auth` without its kind, which may be the one that is there. */
async function settingsOf(cli: Cli, options: Options): Promise<Settings> {
  const secrets = await secretsOf(cli, options);
  const { credential, credential_ref, ...ofAuth } = secrets;
  const fields = [...Object.keys(AUTH_FIELDS), 'client_authentication'];
  const auth = { ...given(options, fields), ...ofAuth };
  const lists = {
    models: cleared(options.model, 'all', []),
    upstream_names: cleared(options.upstreamName, 'none', {}),
    forward_headers: cleared(options.forwardHeader, 'none', []),
  };
  return {
    ...given(options, ['dialect', 'base_url', 'priority', 'weight']),
    ...given(
      options,
      ['max_parallel', 'connect_timeout_ms', 'first_byte_timeout_ms', 'chunk_timeout_ms', 'on_disconnect'],
      (value) => (value === 'none' ? null : value),
    ),
    ...Object.fromEntries(Object.entries(lists).filter(([, value]) => value !== undefined)),
    ...(credential !== undefined && { credential }),
    ...(credential_ref !== undefined && { credential_ref }),
    ...((options.auth !== undefined || Object.keys(auth).length > 0) && { auth: auth as Partial<Auth> }),
  };
}

function given(options: Options, fields: readonly string[], read = (value: unknown) => value) {
  const entries = fields.map((field) => [field, options[attributeOf(optionName(field))]] as const);
  return Object.fromEntries(
    entries.flatMap(([field, value]) => (value === undefined ? [] : [[field, read(value)]])),
  );
}

/** The secrets that were given, by their fields in the API. */
async function secretsOf(cli: Cli, options: Options): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  const fromInput = Object.keys(SECRETS).filter((field) => options[sourceOf(field, 'file')] === '-');
  if (fromInput.length > 1) throw new UsageError('Only one secret can come from standard input.');
  for (const field of Object.keys(SECRETS)) {
    const reference = options[sourceOf(field, 'ref')] as string | undefined;
    const secret = await secretOf(cli, field, options);
    if (reference !== undefined && !/^(env|file):/.test(reference))
      throw new UsageError(`--${optionName(field)}-ref is env:NAME or file:/path.`);
    if (reference !== undefined) secrets[field === 'credential' ? 'credential_ref' : field] = reference;
    if (secret !== undefined) secrets[field] = secret;
  }
  return secrets;
}

/** A secret that is in a file or a variable where the command runs. It is not repeated in an error. */
async function secretOf(
  { env, readFile }: Cli,
  field: string,
  options: Options,
): Promise<string | undefined> {
  const file = options[sourceOf(field, 'file')] as string | undefined;
  const variable = options[sourceOf(field, 'env')] as string | undefined;
  if (file === undefined && variable === undefined) return undefined;
  const place = file === undefined ? `The variable ${variable}` : file === '-' ? 'Standard input' : file;
  const text = file === undefined ? env[variable as string] : await read(readFile, file);
  const secret = text?.trim();
  if (!secret) throw new UsageError(`${place} is empty.`);
  // The API would take these for a place of the control plane, or for what it has stored.
  if (/^(env|file):/.test(secret) || secret === 'sealed')
    throw new UsageError(`${place} has no secret. For a reference, use --${optionName(field)}-ref.`);
  return secret;
}

async function read(readFile: Cli['readFile'], file: string): Promise<string> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new UsageError(`${file} can't be read: ${(error as Error).message}`);
  }
}

function optionName(field: string): string {
  return field.replaceAll('_', '-');
}

function sourceOf(field: string, source: 'file' | 'env' | 'ref'): string {
  return attributeOf(`${optionName(field)}-${source}`);
}

function cleared(value: unknown, word: string, empty: unknown): unknown {
  const isWord = Array.isArray(value) ? value.length === 1 && value[0] === word : value === word;
  return isWord ? empty : value;
}

function wholeNumber(text: string): number {
  if (/^-?\d{1,7}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a whole number.');
}

function countOrNone(text: string): number | 'none' {
  return text === 'none' ? text : parsePositiveInteger(text);
}

function collectNames(text: string, before: unknown): Record<string, string> | 'none' {
  if (text === 'none') return text;
  const [, model, name] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (model === undefined || name === undefined)
    throw new InvalidArgumentError('It must be a model, "=" and its name, such as openai/gpt-4o=our-gpt.');
  return { ...(before as Record<string, string> | undefined), [model]: name };
}
