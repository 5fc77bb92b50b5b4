import { createConnector } from '@weighbridge/client/operations';
import { type Command, Option } from 'commander';
import { addFlags, type Read } from '../resources/flags.ts';
import { attributeOf } from '../resources/parsers.ts';
import type { Cli } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

type Options = Readonly<Record<string, unknown>>;

/** What is secret: its name in the API, and what it is. */
const SECRETS = {
  credential: 'the credential',
  client_secret: 'of oauth and azure: the secret of the client',
  secret_access_key: 'of aws: the secret of the access key',
  session_token: 'of aws: the token of a temporary access key',
  credentials: 'of google: the key of a service account, as JSON',
} as const;

/**
 * How requests to a vendor are authorised. A secret is read from a file or a variable where the command runs, or is a reference; the
 * other fields of `auth` are options.
 */
export function accountOptions(command: Command, cli: Cli): Read {
  const readAuth = addFlags(
    command,
    createConnector.body.auth?.fields ?? {},
    {
      ...Object.fromEntries(Object.keys(SECRETS).map((field) => [field, null])),
      client_id: { text: 'of oauth and azure: the client' },
      client_authentication: { text: 'of oauth: in the body, or in the header' },
      scope: { text: 'of oauth and azure: what the tokens are for' },
      external_id: { text: 'of aws, with --role-arn, if the role asks for it' },
      kind: { flag: 'auth <kind>', text: 'how requests are authorised; default: key' },
    },
    { now: cli.now },
  );
  for (const [field, text] of Object.entries(SECRETS)) addSecret(command, optionName(field), text);
  return async (session, options) => {
    const { credential, credential_ref, ...ofAuth } = await secretsOf(cli, options);
    const auth = { ...(await readAuth(session, options)), ...ofAuth };
    return {
      ...(credential !== undefined && { credential }),
      ...(credential_ref !== undefined && { credential_ref }),
      ...(Object.keys(auth).length > 0 && { auth }),
    };
  };
}

function addSecret(command: Command, name: string, text: string): void {
  const [file, env, ref] = [`${name}-file`, `${name}-env`, `${name}-ref`];
  command
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
