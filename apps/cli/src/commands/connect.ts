import { bodyOf } from '@weighbridge/client';
import { Argument, Command, InvalidArgumentError } from 'commander';
import { modelInstead } from '../connect/reachableModel.ts';
import { textOf } from '../connect/recipe.ts';
import { findRecipe, RECIPES } from '../connect/recipes.ts';
import { parseMicroUsd, parseTime } from '../resources/parsers.ts';
import { printable, usd } from '../session/output.ts';
import { type Cli, openSession, type Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

interface Options {
  readonly name?: string;
  readonly principal?: string;
  readonly policy?: string;
  readonly budget?: number;
  readonly expires?: string;
  readonly existingKeyFile?: string;
  readonly inferenceUrl?: string;
}

export function connectCommand(cli: Cli): Command {
  return new Command('connect')
    .description('print what a client needs to use this service, with a new key')
    .addArgument(new Argument('[client]', 'the client; without one, they are listed').choices(names()))
    .option('--name <name>', "the key's name (default: the client's)")
    .option('--principal <id>', "the principal that owns the key (operators only; default: the caller's own)")
    .option('--policy <id>', 'the policy that governs the key')
    .option(
      '--budget <usd>',
      'the most that the new key may spend in a month, in dollars (operators only)',
      (text) => parseMicroUsd(text),
    )
    .option('--expires <time>', 'a date-time, or a duration such as 30d', parseTime(cli.now))
    .option('--existing-key-file <file>', 'use the key in this file, instead of a new one')
    .option('--inference-url <address>', "where `/v1` is (default: the service's address)", parseAddress)
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge connect claude-code --budget 50\n  weighbridge connect codex --principal ada@example.com --expires 90d',
    )
    .action(async (name: string | undefined, options: Options, command: Command) => {
      if (name === undefined) cli.out(listOf());
      else await connect(await openSession(cli, command), name, options);
    });
}

const names = () => RECIPES.map(({ name }) => name);

function listOf(): string {
  const widest = Math.max(...RECIPES.map(({ name }) => name.length));
  return RECIPES.map(({ name, title }) => `${name.padEnd(widest)}  ${title}`).join('\n');
}

async function connect(session: Session, name: string, options: Options): Promise<void> {
  const recipe = findRecipe(name);
  if (!recipe) throw new UsageError(`There is no client ${name}. Known: ${names().join(', ')}.`);
  const { key, id } = await keyFor(session, name, options);
  const service = { url: options.inferenceUrl ?? session.connection.baseUrl, key };
  const instead = await modelInstead(service, recipe.model);
  const next = instead === undefined ? recipe.next : recipe.next.replaceAll(recipe.model, instead);
  if (session.json) {
    session.showOne({ client: name, key_id: id, ...recipe.settings(service), next });
    return;
  }
  session.out(textOf(recipe, service));
  session.err(`Then: ${next}`);
  if (instead !== undefined) {
    session.err(
      `This key cannot reach ${recipe.model}: name ${printable(instead)} instead, or add its vendor.`,
    );
  }
  if (recipe.note !== undefined) session.err(recipe.note);
}

async function keyFor(
  session: Session,
  client: string,
  options: Options,
): Promise<{ key: string; id: string | null }> {
  const { existingKeyFile } = options;
  if (existingKeyFile !== undefined) return { key: await readKey(session, existingKeyFile), id: null };
  const name = options.name ?? client;
  const policy =
    options.budget === undefined ? options.policy : await budgetOf(session, options.budget, options.policy);
  const body = {
    name,
    scopes: ['inference' as const, 'models:read' as const, 'usage:read' as const],
    ...(options.principal && { principal_id: options.principal }),
    ...(policy && { policy_id: policy }),
    ...(options.expires && { expires_at: options.expires }),
  };
  const issued = await bodyOf(session.client.POST('/api/v1/keys', { body }));
  if (!session.json)
    session.err(
      `Issued ${printable(issued.name)} (${issued.id}), governed by ${issued.policy_id}. Its secret is shown only once:`,
    );
  return { key: issued.key, id: issued.id };
}

/** The id of a policy that gives each of its keys this budget; with `parent` as its parent, so that both limits hold. */
async function budgetOf(session: Session, budget: number, parent: string | undefined): Promise<string> {
  const body = {
    name: `${usd(budget)} a month for each key`,
    limit_micro_usd: budget,
    window: 'month' as const,
    counter_scope: 'key' as const,
    ...(parent && { parent_policy_id: parent }),
  };
  const query = { name_contains: body.name, page_size: 500, ...(parent && { parent_policy_id: parent }) };
  const { data } = await bodyOf(session.client.GET('/api/v1/policies', { params: { query } }));
  // An operator may have changed it since.
  const before = data.find(
    (policy) =>
      policy.enforcement === 'enforce' &&
      policy.parent_policy_id === (parent ?? null) &&
      Object.entries(body).every(([field, value]) => policy[field as keyof typeof body] === value),
  );
  return (before ?? (await bodyOf(session.client.POST('/api/v1/policies', { body })))).id;
}

async function readKey(session: Session, file: string): Promise<string> {
  const key = (await session.readFile(file)).trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new UsageError(`${file} contains no valid key: a key (sk-svc-…) is one word`);
}

function parseAddress(text: string): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text.replace(/\/+$/, '');
  throw new InvalidArgumentError('It must be an http(s) address, such as https://ai.example.com.');
}
